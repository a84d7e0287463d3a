// Whether a client sends arguments of calls as text or as objects, a template prints what it would print of
// the form that it was written for.

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.hpp"
#include "chat/render.hpp"

namespace inferno {
namespace {

constexpr std::string_view kTools =
    R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])";
constexpr std::string_view kSystem = R"({"role": "system", "content": "s"},)";

struct Style {
  std::string_view name;
  std::string_view source;
  std::string_view expected;  ///< of {"city": "Bonn", "n": [1, 2.0]}
  bool system = false;
  bool tools = false;
};

/// How published templates print calls.
const std::vector<Style> kStyles = {
    {"the function as JSON",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function|tojson }}{% endfor %}{% endfor "
     "%}",
     R"({"name": "f", "arguments": {"city": "Bonn", "n": [1, 2.0]}})"},
    {"indented",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments|tojson(indent=4) }}{% "
     "endfor %}{% endfor %}",
     "{\n    \"city\": \"Bonn\",\n    \"n\": [\n        1,\n        2.0\n    ]\n}"},
    {"without blanks",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ "
     "c.function.arguments|tojson(separators=(',', ':')) }}{% endfor %}{% endfor %}",
     R"({"city":"Bonn","n":[1,2.0]})"},
    {"the items filter",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in c.function.arguments|items "
     "%}<{{ "
     "k }}>{{ v if v is string else v|tojson }}{% endfor %}{% endfor %}{% endfor %}",
     "<city>Bonn<n>[1, 2.0]"},
    {"the items method",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{% set a = c.function.arguments %}{% for k, v "
     "in a.items() %}{{ '<' + k + '>' }}{{ v|tojson(ensure_ascii=False) if v is not string else v }}{% "
     "endfor "
     "%}{% endfor %}{% endfor %}",
     "<city>Bonn<n>[1, 2.0]"},
    {"keys one by one",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k in c.function.arguments %}{{ k }}={{ "
     "c.function.arguments[k] }};{% endfor %}{% endfor %}{% endfor %}",
     "city=Bonn;n=[1, 2.0];"},
    {"values only",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments.values()|first }}{% "
     "endfor %}{% endfor %}",
     "Bonn"},
    {"appended text",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ '<' + c.function.arguments + '>' }}{% "
     "endfor "
     "%}{% endfor %}",
     R"(<{"city": "Bonn", "n": [1, 2.0]}>)"},
    {"printed text",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}({{ c.function.arguments "
     "}}){% endfor %}{% endfor %}",
     R"(f({"city": "Bonn", "n": [1, 2.0]}))"},
    {"both",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments if "
     "c.function.arguments "
     "is string else c.function.arguments|tojson }}{% endfor %}{% endfor %}",
     R"({"city": "Bonn", "n": [1, 2.0]})"},
    {"only with tools",
     "{% for m in messages %}{% if m.tool_calls and tools %}{% for c in m.tool_calls %}{{ "
     "c.function.arguments|tojson }}{% endfor %}{% endif %}{% endfor %}",
     R"({"city": "Bonn", "n": [1, 2.0]})", false, true},
    {"only with a system message",
     "{% if messages[0].role != 'system' %}{{ raise_exception('no system message') }}{% endif %}{% for m in "
     "messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}",
     R"({"city": "Bonn", "n": [1, 2.0]})", true, false},
    {"only with a variable of the request",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if mode == 'calls' %}{{ "
     "c.function.arguments|tojson }}{% endif %}{% endfor %}{% endfor %}",
     R"({"city": "Bonn", "n": [1, 2.0]})"},
    {"objects demanded",
     "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.function.arguments is not mapping %}{{ "
     "raise_exception('expected an object') }}{% endif %}{{ c.function.arguments['city'] }}{% endfor %}{% "
     "endfor %}",
     "Bonn"},
};

std::string rendered(const Style& style, std::string_view call_list) {
  const ChatTemplate chat(style.source, "t");
  return chat
      .render(parse_conversation(test::joined(
          {R"({"messages": [)", style.system ? kSystem : "", R"({"role": "user", "content": "q"},
              {"role": "assistant", "content": null, )",
           call_list, R"(}, {"role": "tool", "content": "r", "tool_call_id": "a"}], "mode": "calls")",
           style.tools ? kTools : "", "}"})))
      .text();
}

TEST(ArgumentFormStyles, TextAndObjectsGiveWhatTheTemplateWasWrittenFor) {
  constexpr std::string_view kObject = R"({"city": "Bonn", "n": [1, 2.0]})";
  constexpr std::string_view kText = R"("{\"city\": \"Bonn\", \"n\": [1, 2.0]}")";
  for (const auto& style : kStyles) {
    for (const auto arguments : {kObject, kText}) {
      EXPECT_EQ(rendered(style, test::joined({R"("tool_calls": [{"id": "a", "type": "function",
                                "function": {"name": "f", "arguments": )",
                                              arguments, "}}]"})),
                style.expected)
          << style.name << " <- " << arguments;
      EXPECT_EQ(
          rendered(style, test::joined({R"("function_call": {"name": "f", "arguments": )", arguments, "}"})),
          style.expected)
          << style.name << ", the older form <- " << arguments;
    }
  }
}

TEST(ArgumentFormStyles, MessagesThatAreWrongAreNamedAllTheSame) {
  const ChatTemplate chat("{{ messages|length }}", "t");
  EXPECT_THROW(
      chat.render(parse_conversation(
          R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]}]})")),
      ConversationError);
  EXPECT_THROW(chat.render(parse_conversation(R"({"messages": [{"role": "assistant", "tool_calls": 5}]})")),
               ConversationError);
}

}  // namespace
}  // namespace inferno
