#include "chat/conversation.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/globals.hpp"
#include "chat/jinja/json.hpp"
#include "platform/quote.hpp"

namespace inferno {
namespace {

using jinja::Kind;
using jinja::Value;
using Fault = ConversationError::Fault;

/// Roles of requests and what templates know them as.
struct Role {
  std::string_view name, for_template;
};
constexpr Role kRoles[] = {{"system", "system"},       {"developer", "system"}, {"user", "user"},
                           {"assistant", "assistant"}, {"tool", "tool"},        {"function", "tool"}};
constexpr std::string_view kContent = "a string or an array of text parts";
constexpr std::string_view kFunction = "{\"name\": …, \"arguments\": …}";

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
  throw ConversationError(Fault::type, path,
                          fmt::format("expected {}, found {}", expected, json_type(found)));
}

[[noreturn]] void fail_missing(const std::string& path, std::string_view expected) {
  throw ConversationError(Fault::missing, path, fmt::format("is missing; expected {}", expected));
}

/// nullptr: not given, or null.
const Value* member(const Value& object, std::string_view name) {
  const auto* value = object.dict().find(name);
  return value == nullptr || value->is_none() ? nullptr : value;
}

/// A member that must be a string if it is there.
const Value* string_member(const Value& object, std::string_view name, const std::string& path) {
  const auto* value = member(object, name);
  if (value != nullptr && !value->is_string()) fail(fmt::format("{}.{}", path, name), "a string", *value);
  return value;
}

const Value& required_string(const Value& object, std::string_view name, const std::string& path,
                             std::string_view expected = "a string") {
  const auto* value = string_member(object, name, path);
  if (value == nullptr) fail_missing(fmt::format("{}.{}", path, name), expected);
  return *value;
}

/// Text parts joined as they are: nothing is added that nobody wrote.
Value joined_parts(const Value& parts, const std::string& path) {
  jinja::Text text;
  std::size_t place = 0;
  for (const auto& part : parts.list().items) {
    const auto own_path = fmt::format("{}[{}]", path, place++);
    if (!part.is(Kind::dict)) fail(own_path, "an object {\"type\": \"text\", \"text\": …}", part);
    const auto& type = required_string(part, "type", own_path, "\"text\"").text().bytes();
    if (type != "text" && type != "refusal") {
      throw ConversationError(
          Fault::unsupported, own_path + ".type",
          fmt::format("{} parts are not supported; this model reads text only", quote(type, 40)));
    }
    text.append(required_string(part, type, own_path).text());  // {"type": "text", "text": …}
  }
  return jinja::make_string(nullptr, std::move(text));
}

Value normalized_content(const Value& message, std::string_view role, const std::string& path) {
  const auto own_path = path + ".content";
  const auto* content = member(message, "content");
  const auto* refusal = string_member(message, "refusal", path);
  Value text;
  if (content == nullptr) {
    if (role != "assistant" && role != "tool") fail_missing(own_path, kContent);
    text = jinja::make_untrusted("");
  } else if (content->is_string()) {
    text = *content;
  } else if (content->is(Kind::list)) {
    text = joined_parts(*content, own_path);
  } else {
    fail(own_path, kContent, *content);
  }
  // What it said instead of an answer.
  return refusal != nullptr && text.text().bytes().empty() ? *refusal : text;
}

Value normalized_arguments(const Value& arguments, ArgumentForm form, const std::string& path) {
  if (arguments.is_string()) {
    const auto& text = arguments.text().bytes();
    // What clients send for a function without parameters.
    if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
      return normalized_arguments(jinja::make_untrusted("{}"), form, path);
    if (form != ArgumentForm::object) return arguments;
    auto parsed = jinja::parse_json(text, path);
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
  if (!function.is(Kind::dict)) fail(path, fmt::format("an object {}", kFunction), function);
  required_string(function, "name", path);
  const auto* given = member(function, "arguments");
  const auto arguments = normalized_arguments(given == nullptr ? jinja::make_untrusted("{}") : *given, form,
                                              path + ".arguments");
  jinja::DictBuilder builder(nullptr);
  for (const auto& [key, value] : function.dict().entries) {
    builder.set(key, key.text().bytes() == "arguments" ? arguments : value);
  }
  builder.add_once(jinja::make_trusted(nullptr, "arguments"), arguments);
  return builder.finish();
}

Value normalized_call(const Value& call, ArgumentForm form, const std::string& path) {
  if (!call.is(Kind::dict)) fail(path, "an object with a function", call);
  string_member(call, "id", path);
  const auto* type = string_member(call, "type", path);
  if (type != nullptr && type->text().bytes() != "function") {
    throw ConversationError(Fault::unsupported, path + ".type",
                            fmt::format("expected \"function\", found {}", quote(type->text().bytes(), 40)));
  }
  const auto* function = member(call, "function");
  if (function == nullptr) {
    if (member(call, "name") == nullptr) fail_missing(path + ".function", kFunction);
    return normalized_function(call, form, path);
  }
  jinja::DictBuilder builder(nullptr);
  for (const auto& [key, value] : call.dict().entries) {
    const bool is_function = key.text().bytes() == "function";
    builder.set(key, is_function ? normalized_function(value, form, path + ".function") : value);
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

/// The one call of a message in its older form, as the newer form has it.
Value calls_of_function_call(const Value& message, ArgumentForm form, const std::string& path) {
  const auto own_path = path + ".function_call";
  const auto* calls = member(message, "tool_calls");
  if (calls != nullptr) {
    throw ConversationError(Fault::value, own_path, "stands beside tool_calls; expected one of them");
  }
  jinja::DictBuilder call(nullptr);
  call.set(jinja::make_trusted(nullptr, "type"), jinja::make_trusted(nullptr, "function"));
  call.set(jinja::make_trusted(nullptr, "function"),
           normalized_function(*member(message, "function_call"), form, own_path));
  return jinja::make_list(nullptr, {call.finish()});
}

std::string_view role_of(const Value& message, const std::string& path) {
  const auto& name = required_string(message, "role", path).text().bytes();
  const auto* role = std::find_if(std::begin(kRoles), std::end(kRoles),
                                  [&](const Role& known) { return known.name == name; });
  if (role != std::end(kRoles)) return role->for_template;
  std::vector<std::string_view> names;
  for (const auto& known : kRoles) names.push_back(known.name);
  throw ConversationError(
      Fault::value, path + ".role",
      fmt::format("there is no role {}; expected one of {}", quote(name, 40), fmt::join(names, ", ")));
}

Value normalized_message(const Value& message, ArgumentForm form, const std::string& path) {
  if (!message.is(Kind::dict)) fail(path, "an object with role and content", message);
  const auto role = role_of(message, path);
  for (const auto* name : {"name", "tool_call_id", "reasoning_content"}) string_member(message, name, path);
  if (member(message, "audio") != nullptr) {
    throw ConversationError(Fault::unsupported, path + ".audio", "this model reads text only");
  }
  const auto content = normalized_content(message, role, path);
  jinja::DictBuilder builder(nullptr);
  for (const auto& [key, value] : message.dict().entries) {
    const auto& name = key.text().bytes();
    if (name == "role") {
      builder.set(key, value.text().bytes() == role ? value : jinja::make_untrusted(role));
    } else if (name == "content") {
      builder.set(key, content);
    } else if (value.is_none()) {
      continue;
    } else if (name == "tool_calls") {
      builder.set(key, normalized_calls(value, form, path + ".tool_calls"));
    } else if (name == "function_call") {
      builder.set(jinja::make_trusted(nullptr, "tool_calls"), calls_of_function_call(message, form, path));
    } else {
      builder.set(key, value);
    }
  }
  builder.add_once(jinja::make_trusted(nullptr, "content"), content);
  return builder.finish();
}

}  // namespace

ConversationError::ConversationError(Fault fault, std::string path, std::string_view what)
    : UsageError(fmt::format("{}: {}", path, what)), fault_(fault), path_(std::move(path)) {}

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
    } else if (name == "chat_template_kwargs") {
      if (value.is_none()) continue;
      if (!value.is(Kind::dict)) fail(name, "an object", value);
      for (const auto& [variable, said] : value.dict().entries) {
        if (!said.is_none()) set_variable(conversation, variable.text().bytes(), said);
      }
    } else {
      set_variable(conversation, name, value);
    }
  }
  return conversation;
}

void set_variable(Conversation& conversation, std::string_view name, Value value) {
  const bool is_reserved = std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
  if (is_reserved || jinja::is_global(name)) {
    throw UsageError(
        fmt::format("{}: a request cannot set this variable of the chat template", quote(name, 80)));
  }
  if (name == "enable_thinking" && !value.is(Kind::boolean)) fail(std::string(name), "true or false", value);
  conversation.variables.insert_or_assign(std::string(name), std::move(value));
}

Value normalized_messages(const Value& messages, ArgumentForm form) {
  if (messages.is(Kind::none)) {
    throw ConversationError(Fault::missing, "messages", "is missing; expected an array of messages");
  }
  if (!messages.is(Kind::list)) fail("messages", "an array of messages", messages);
  if (messages.list().items.empty())
    throw ConversationError(Fault::value, "messages", "the array is empty; expected at least one message");
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
