#include "chat/argument_form.hpp"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <string_view>

#include "chat/jinja/json.hpp"

namespace inferno {
namespace {

using jinja::Kind;
using jinja::Value;

// Words that stand in no template: they are looked for in what comes out.
constexpr std::string_view kKey = "zq_probe_key";
constexpr std::string_view kValue = "zq_probe_value";

/// What a rendering shows of the arguments.
struct Sight {
  bool rendered = false;
  bool visible = false;         ///< the key or the value stands there, in one piece
  bool python = false;          ///< as Python prints a dict
  std::size_t backslashes = 0;  ///< before their quotes, at most: how often they were quoted again
};

Sight look_at(const std::optional<std::string>& text) {
  Sight sight;
  if (!text) return sight;
  sight.rendered = true;
  for (const auto word : {kKey, kValue}) {
    for (auto at = text->find(word); at != std::string::npos; at = text->find(word, at + word.size())) {
      sight.visible = true;
      if (at == 0) continue;
      sight.python = sight.python || (word == kKey && (*text)[at - 1] == '\'');
      if ((*text)[at - 1] != '"') continue;
      auto begin = at - 1;
      while (begin > 0 && (*text)[begin - 1] == '\\') --begin;
      sight.backslashes = std::max(sight.backslashes, at - 1 - begin);
    }
  }
  return sight;
}

/// What one conversation tells.
struct Finding {
  std::optional<ArgumentForm> form;
  bool shown = false;  ///< arguments could be seen; otherwise one form merely failed
};

Finding compare(const Sight& text, const Sight& object) {
  if (text.visible && object.visible) {
    if (object.python && !text.python) return {ArgumentForm::text, true};
    if (text.backslashes > object.backslashes) return {ArgumentForm::object, true};
    if (object.backslashes > text.backslashes) return {ArgumentForm::text, true};
    return {ArgumentForm::as_given, true};
  }
  // A template that goes through an object's keys finds single characters in a text.
  if (text.visible || object.visible) return {text.visible ? ArgumentForm::text : ArgumentForm::object, true};
  if (text.rendered != object.rendered)
    return {text.rendered ? ArgumentForm::text : ArgumentForm::object, false};
  return {};
}

Value arguments_as_object() {
  return jinja::parse_json(fmt::format(R"({{"{}": "{}"}})", kKey, kValue), "arguments");
}

Value arguments_as_text() {
  return jinja::make_untrusted(fmt::format(R"({{"{}": "{}"}})", kKey, kValue));
}

/// A dict with one of its members made anew.
template <typename Change>
Value with_member(const Value& dict, std::string_view name, const Change& change) {
  jinja::DictBuilder builder(nullptr);
  for (const auto& [key, value] : dict.dict().entries) {
    builder.set(key, key.is_string() && key.text().bytes() == name ? change(value) : value);
  }
  return builder.finish();
}

template <typename Change>
Value with_items(const Value& list, const Change& change) {
  if (!list.is(Kind::list)) return list;
  jinja::Values items;
  for (const auto& item : list.list().items) items.push_back(item.is(Kind::dict) ? change(item) : item);
  return jinja::make_list(nullptr, std::move(items));
}

Value with_arguments(const Value& function, const Value& arguments) {
  if (!function.is(Kind::dict)) return function;
  jinja::DictBuilder builder(nullptr);
  for (const auto& [key, value] : function.dict().entries) {
    builder.set(key, key.text().bytes() == "arguments" ? arguments : value);
  }
  builder.add_once(jinja::make_trusted(nullptr, "arguments"), arguments);
  return builder.finish();
}

Conversation with_all_arguments(const Conversation& conversation, const Value& arguments) {
  const auto of_function = [&](const Value& function) { return with_arguments(function, arguments); };
  const auto of_call = [&](const Value& call) {
    const auto* function = call.dict().find("function");
    if (function == nullptr || function->is_none()) return of_function(call);
    return with_member(call, "function", of_function);
  };
  const auto of_message = [&](const Value& message) {
    const auto changed =
        with_member(message, "tool_calls", [&](const Value& calls) { return with_items(calls, of_call); });
    return with_member(changed, "function_call", of_function);
  };
  auto result = conversation;
  result.messages = with_items(conversation.messages, of_message);
  return result;
}

Finding find_form(const Conversation& conversation, const TryRender& render) {
  return compare(look_at(render(with_all_arguments(conversation, arguments_as_text()))),
                 look_at(render(with_all_arguments(conversation, arguments_as_object()))));
}

Conversation short_conversation(bool with_tools, bool with_system) {
  constexpr std::string_view kSystem = R"({"role": "system", "content": "s"}, )";
  // Nine characters: some templates insist on that.
  constexpr std::string_view kMessages =
      R"({"role": "user", "content": "a"},
         {"role": "assistant", "content": "", "tool_calls": [
            {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": {}}}]},
         {"role": "tool", "content": "b", "tool_call_id": "call00000", "name": "f"})";
  constexpr std::string_view kTools =
      R"(, "tools": [{"type": "function", "function": {"name": "f", "description": "d",
                      "parameters": {"type": "object", "properties": {}, "required": []}}}])";
  return parse_conversation(fmt::format(R"({{"messages": [{}{}]{}}})", with_system ? kSystem : "", kMessages,
                                        with_tools ? kTools : ""));
}

}  // namespace

std::optional<ArgumentForm> probe_argument_form(const TryRender& render) {
  for (const bool with_tools : {true, false}) {
    for (const bool with_system : {true, false}) {
      const auto found = find_form(short_conversation(with_tools, with_system), render);
      if (found.shown) return found.form;
    }
  }
  return std::nullopt;
}

std::optional<ArgumentForm> probe_argument_form(const Conversation& conversation, const TryRender& render) {
  return find_form(conversation, render).form;
}

bool has_tool_calls(const jinja::Value& messages) {
  if (!messages.is(Kind::list)) return false;
  const auto& items = messages.list().items;
  return std::any_of(items.begin(), items.end(), [](const Value& message) {
    if (!message.is(Kind::dict)) return false;
    const auto* calls = message.dict().find("tool_calls");
    return (calls != nullptr && !calls->is_none()) || message.dict().find("function_call") != nullptr;
  });
}

}  // namespace inferno
