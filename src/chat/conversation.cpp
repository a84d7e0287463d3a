#include "chat/conversation.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <string>
#include <utility>

#include <inferno/error.hpp>

#include "chat/jinja/json.hpp"
#include "platform/quote.hpp"

namespace inferno {
namespace {

using jinja::Kind;
using jinja::Value;

constexpr std::string_view kRoles[] = {"system", "developer", "user", "assistant", "tool"};
/// Variables that belong to the renderer.
constexpr std::string_view kReserved[] = {"messages",      "tools",     "add_generation_prompt",
                                          "chat_template", "bos_token", "eos_token",
                                          "pad_token",     "unk_token"};

/// What JSON calls a value.
std::string_view json_type(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return "null";
    case Kind::boolean:
      return "a boolean";
    case Kind::integer:
    case Kind::big_integer:
    case Kind::real:
      return "a number";
    case Kind::string:
      return "a string";
    case Kind::list:
      return "an array";
    case Kind::dict:
      return "an object";
    default:
      return "something else";
  }
}

[[noreturn]] void fail(const std::string& path, std::string_view expected, const Value& found) {
  throw UsageError(fmt::format("{}: expected {}, found {}", path, expected, json_type(found)));
}

const Value* member(const Value& object, std::string_view name) {
  return object.dict().find(name);
}

/// Text parts joined as they are: nothing is added that nobody wrote.
Value joined_parts(const Value& parts, const std::string& path) {
  jinja::Text text;
  std::size_t place = 0;
  for (const auto& part : parts.list().items) {
    const auto own_path = fmt::format("{}[{}]", path, place++);
    if (!part.is(Kind::dict)) fail(own_path, "an object {\"type\": \"text\", \"text\": …}", part);
    const auto* type = member(part, "type");
    if (type == nullptr || !type->is_string()) {
      fail(own_path + ".type", "the string \"text\"", type == nullptr ? Value() : *type);
    }
    if (type->text().bytes() != "text") {
      throw UsageError(fmt::format("{}.type: {} parts are not supported; this model reads text only",
                                   own_path, quote(type->text().bytes(), 40)));
    }
    const auto* content = member(part, "text");
    if (content == nullptr || !content->is_string()) {
      fail(own_path + ".text", "a string", content == nullptr ? Value() : *content);
    }
    text.append(content->text());
  }
  return jinja::make_string(nullptr, std::move(text));
}

Value normalized_content(const Value& message, std::string_view role, const std::string& path) {
  const auto* content = member(message, "content");
  if (content == nullptr || content->is_none()) {
    if (role == "assistant" || role == "tool") return jinja::make_untrusted("");
    fail(path + ".content", "a string or an array of text parts", Value());
  }
  if (content->is_string()) return *content;
  if (content->is(Kind::list)) return joined_parts(*content, path + ".content");
  fail(path + ".content", "a string or an array of text parts", *content);
}

Value normalized_arguments(const Value& arguments, ArgumentForm form, const std::string& path) {
  if (arguments.is_string()) {
    if (form != ArgumentForm::object) return arguments;
    const auto& text = arguments.text().bytes();
    auto parsed = jinja::parse_json(text.empty() ? "{}" : text, path);
    if (!parsed.is(Kind::dict)) fail(path, "JSON text of an object", parsed);
    return parsed;
  }
  if (!arguments.is(Kind::dict)) fail(path, "an object, or JSON text of one", arguments);
  if (form != ArgumentForm::text) return arguments;
  jinja::Budget budget{jinja::Limits()};
  auto text = jinja::dump_json(budget, arguments, {});
  return jinja::make_string(nullptr, std::move(text));
}

/// {name, arguments}, with everything else that it holds.
Value normalized_function(const Value& function, ArgumentForm form, const std::string& path) {
  const auto* name = member(function, "name");
  if (name == nullptr || !name->is_string())
    fail(path + ".name", "a string", name == nullptr ? Value() : *name);
  jinja::DictBuilder builder(nullptr);
  bool has_arguments = false;
  for (const auto& [key, value] : function.dict().entries) {
    const bool is_arguments = key.text().bytes() == "arguments";
    has_arguments = has_arguments || is_arguments;
    builder.set(key, is_arguments && !value.is_none() ? normalized_arguments(value, form, path + ".arguments")
                     : is_arguments
                         ? normalized_arguments(jinja::make_untrusted("{}"), form, path + ".arguments")
                         : value);
  }
  if (!has_arguments) {
    builder.set(jinja::make_trusted(nullptr, "arguments"),
                normalized_arguments(jinja::make_untrusted("{}"), form, path + ".arguments"));
  }
  return builder.finish();
}

Value normalized_call(const Value& call, ArgumentForm form, const std::string& path) {
  if (!call.is(Kind::dict)) fail(path, "an object with a function", call);
  const auto* function = member(call, "function");
  if (function == nullptr) return normalized_function(call, form, path);
  if (!function->is(Kind::dict))
    fail(path + ".function", "an object {\"name\": …, \"arguments\": …}", *function);
  jinja::DictBuilder builder(nullptr);
  for (const auto& [key, value] : call.dict().entries) {
    builder.set(
        key, key.text().bytes() == "function" ? normalized_function(value, form, path + ".function") : value);
  }
  return builder.finish();
}

Value normalized_calls(const Value& calls, ArgumentForm form, const std::string& path) {
  if (!calls.is(Kind::list)) fail(path, "an array of tool calls", calls);
  jinja::Values result;
  for (const auto& call : calls.list().items) {
    result.push_back(normalized_call(call, form, fmt::format("{}[{}]", path, result.size())));
  }
  return jinja::make_list(nullptr, std::move(result));
}

Value normalized_message(const Value& message, ArgumentForm form, const std::string& path) {
  if (!message.is(Kind::dict)) fail(path, "an object with role and content", message);
  const auto* role_value = member(message, "role");
  if (role_value == nullptr || !role_value->is_string()) {
    fail(path + ".role", "a string", role_value == nullptr ? Value() : *role_value);
  }
  const auto& role = role_value->text().bytes();
  if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
    throw UsageError(fmt::format("{}.role: there is no role {}; expected one of {}", path, quote(role, 40),
                                 fmt::join(kRoles, ", ")));
  }
  jinja::DictBuilder builder(nullptr);
  for (const auto& [key, value] : message.dict().entries) {
    const auto& name = key.text().bytes();
    if (name == "role") {
      builder.set(key, role == "developer" ? jinja::make_untrusted("system") : value);
    } else if (name == "content") {
      builder.set(key, normalized_content(message, role, path));
    } else if (name == "tool_calls" && !value.is_none()) {
      builder.set(key, normalized_calls(value, form, path + ".tool_calls"));
    } else if (name == "reasoning_content" && !value.is_none() && !value.is_string()) {
      fail(path + ".reasoning_content", "a string", value);
    } else if (!value.is_none()) {
      builder.set(key, value);
    }
  }
  if (member(message, "content") == nullptr) {
    builder.set(jinja::make_trusted(nullptr, "content"), normalized_content(message, role, path));
  }
  return builder.finish();
}

}  // namespace

Conversation parse_conversation(std::string_view json) {
  const auto input = jinja::parse_json(json, "the conversation");
  if (!input.is(Kind::dict)) fail("the conversation", "an object with messages", input);
  Conversation conversation;
  for (const auto& [key, value] : input.dict().entries) {
    const auto& name = key.text().bytes();
    if (name == "messages") {
      conversation.messages = value;
    } else if (name == "tools") {
      conversation.tools = value;
    } else if (name == "add_generation_prompt") {
      if (!value.is(Kind::boolean)) fail(name, "true or false", value);
      conversation.add_generation_prompt = value.boolean();
    } else {
      set_variable(conversation, name, value);
    }
  }
  return conversation;
}

void set_variable(Conversation& conversation, std::string_view name, Value value) {
  if (std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved)) {
    throw UsageError(fmt::format("{}: a request cannot set this variable of the chat template", quote(name)));
  }
  if (name == "enable_thinking" && !value.is(Kind::boolean)) fail(std::string(name), "true or false", value);
  conversation.variables.insert_or_assign(std::string(name), std::move(value));
}

Value normalized_messages(const Value& messages, ArgumentForm form) {
  if (!messages.is(Kind::list)) fail("messages", "an array of messages", messages);
  if (messages.list().items.empty())
    throw UsageError("messages: the array is empty; expected at least one message");
  jinja::Values result;
  for (const auto& message : messages.list().items) {
    result.push_back(normalized_message(message, form, fmt::format("messages[{}]", result.size())));
  }
  return jinja::make_list(nullptr, std::move(result));
}

Value normalized_tools(const Value& tools) {
  if (tools.is_none()) return tools;
  if (!tools.is(Kind::list)) fail("tools", "an array of tools", tools);
  std::size_t place = 0;
  for (const auto& tool : tools.list().items) {
    const auto path = fmt::format("tools[{}]", place++);
    if (!tool.is(Kind::dict)) fail(path, "an object {\"type\": \"function\", \"function\": …}", tool);
  }
  return tools.list().items.empty() ? Value() : tools;
}

}  // namespace inferno
