// What becomes of messages before a template sees them, and which template that is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "chat/chat_template.hpp"
#include "chat/render.hpp"

namespace inferno {
namespace {

using testing::HasSubstr;

const ChatTemplate& qwen3() {
  static const ChatTemplate chat(
      test::read_json(INFERNO_TEST_DATA "/golden/chat_qwen3.json")["template"].get<std::string>(), "qwen3");
  return chat;
}

std::string prompt_of(const std::string& messages, const std::string& more = "") {
  return qwen3().render(parse_conversation(test::joined({R"({"messages": )", messages, more, "}"}))).text();
}

std::string error_of(const std::string& conversation) {
  try {
    ADD_FAILURE() << qwen3().render(parse_conversation(conversation)).text();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

std::string error_of_messages(const std::string& messages) {
  return error_of(test::joined({R"({"messages": )", messages, "}"}));
}

TEST(Conversation, NullContentAndToolCallsWithTextAsArguments) {
  EXPECT_EQ(prompt_of(R"([{"role": "user", "content": "1+2?"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "add", "arguments": "{\"b\": 2, \"a\": 1}"}},
      {"id": "b", "type": "function", "function": {"name": "add", "arguments": "{\"b\": 0, \"a\": 9}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "3"}, {"role": "tool", "tool_call_id": "b", "content": "9"}])"),
            "<|im_start|>user\n1+2?<|im_end|>\n<|im_start|>assistant\n"
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 2, \"a\": 1}}\n</tool_call>\n"
            "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"b\": 0, \"a\": 9}}\n</tool_call><|im_end|>\n"
            "<|im_start|>user\n<tool_response>\n3\n</tool_response>\n<tool_response>\n9\n</"
            "tool_response><|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(Conversation, TextPartsAreJoinedInOrder) {
  const auto parts = R"([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])";
  const std::string content = parts;
  EXPECT_EQ(prompt_of(test::joined({R"([{"role": "system", "content": )", content,
                                    R"(}, {"role": "user", "content": )", content,
                                    R"(}, {"role": "tool", "content": )", content, "}]"})),
            "<|im_start|>system\nab<|im_end|>\n<|im_start|>user\nab<|im_end|>\n"
            "<|im_start|>user\n<tool_response>\nab\n</tool_response><|im_end|>\n<|im_start|>assistant\n");
}

TEST(Conversation, OldThoughtsAreLeftOut) {
  const auto prompt = prompt_of(R"([{"role": "user", "content": "q1"},
    {"role": "assistant", "content": "<think>\nsecret\n</think>\n\nans1"}, {"role": "user", "content": "q2"}])");
  EXPECT_THAT(prompt, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(prompt, HasSubstr("<|im_start|>assistant\nans1<|im_end|>"));
}

TEST(Conversation, LastMessageMayBeTheAssistantsAndASystemMessageMayStandAnywhere) {
  EXPECT_THAT(prompt_of(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])"),
              HasSubstr("<think>\n\n</think>\n\na<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_EQ(prompt_of(R"([{"role": "user", "content": "q"}, {"role": "system", "content": "s"}])"),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>system\ns<|im_end|>\n<|im_start|>assistant\n");
}

TEST(Conversation, DevelopersAreSystemMessages) {
  EXPECT_EQ(prompt_of(R"([{"role": "developer", "content": "s"}, {"role": "user", "content": "q"}])"),
            prompt_of(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}])"));
}

TEST(Conversation, NullMembersCountAsAbsent) {
  EXPECT_EQ(prompt_of(R"([{"role": "user", "content": "q", "name": null},
                          {"role": "assistant", "content": "a", "tool_calls": null, "reasoning_content": null},
                          {"role": "user", "content": "r"}])",
                      R"(, "tools": null)"),
            prompt_of(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                          {"role": "user", "content": "r"}])",
                      R"(, "tools": [])"));
}

TEST(Conversation, GenerationPromptAndThinkingAreOptional) {
  const auto user = R"([{"role": "user", "content": "q"}])";
  EXPECT_EQ(prompt_of(user, R"(, "add_generation_prompt": false)"), "<|im_start|>user\nq<|im_end|>\n");
  EXPECT_THAT(prompt_of(user, R"(, "enable_thinking": false)"), HasSubstr("<think>\n\n</think>\n\n"));
  EXPECT_EQ(prompt_of(user, R"(, "enable_thinking": true)"), prompt_of(user));
  EXPECT_EQ(prompt_of(user, R"(, "chat_template_kwargs": {"enable_thinking": false, "x": null})"),
            prompt_of(user, R"(, "enable_thinking": false)"));
  EXPECT_EQ(prompt_of(user, R"(, "chat_template_kwargs": null)"), prompt_of(user));
}

TEST(Conversation, TheOlderFormOfCallsGivesTheSamePrompt) {
  EXPECT_EQ(prompt_of(R"([{"role": "user", "content": "q"},
    {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"x\": 1}"}},
    {"role": "function", "name": "f", "content": "3"}])"),
            prompt_of(R"([{"role": "user", "content": "q"},
    {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}]},
    {"role": "tool", "content": "3"}])"));
}

TEST(Conversation, ARefusalIsText) {
  const auto expected =
      prompt_of(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "No."},
                                      {"role": "user", "content": "r"}])");
  for (const std::string_view refused :
       {R"("content": [{"type": "refusal", "refusal": "No."}])", R"("content": null, "refusal": "No.")",
        R"("refusal": "No.")", R"("content": "", "refusal": "No.")", R"("content": "No.", "refusal": null)",
        R"("content": [{"type": "text", "text": "N"}, {"type": "refusal", "refusal": "o."}])"}) {
    EXPECT_EQ(prompt_of(test::joined({R"([{"role": "user", "content": "q"}, {"role": "assistant", )", refused,
                                      R"(}, {"role": "user", "content": "r"}])"})),
              expected)
        << refused;
  }
}

TEST(Conversation, WhatIsWrongIsNamedByItsPath) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"messages": []})", "messages: the array is empty"},
      {R"({"messages": {}})", "messages: expected an array of messages, found an object"},
      {R"([])", "the conversation: expected an object"},
      {R"(null)", "the conversation: expected an object with messages, found null"},
      {R"({})", "messages: is missing; expected an array of messages"},
      {"", "the conversation: expected JSON"},
      {R"({"messages": [],})", "the conversation: expected JSON"},
      {std::string(R"({"messages": []})") + '\0', "the conversation: expected JSON"},
      {R"({"messages": 1e999})", "the conversation: expected JSON"},
      {R"({"messages": "\ud83d"})", "the conversation: expected JSON"},
      {"{\"messages\": \"\xFF\"}", "the conversation: expected JSON"},
      {R"({"messages": [{"role": "user", "content": "x"}], "tools": {}})", "tools: expected an array"},
      {R"({"messages": [{"role": "user", "content": "x"}], "tools": ["x"]})", "tools[0]: expected an object"},
      {R"({"messages": [{"role": "user", "content": "x"}], "enable_thinking": "false"})",
       "enable_thinking: expected true or false, found a string"},
      {R"({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"enable_thinking": 1}})",
       "enable_thinking: expected true or false, found a number"},
      {R"({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": []})",
       "chat_template_kwargs: expected an object, found an array"},
      {R"({"messages": [{"role": "user", "content": "x"}], "add_generation_prompt": 1})",
       "add_generation_prompt: expected true or false"},
      {R"({"messages": [{"role": "user", "content": "x"}], "chat_template": "{{ 1 }}"})",
       "\"chat_template\""},
      {R"({"messages": [{"role": "user", "content": "x"}], "eos_token": "x"})", "\"eos_token\""},
      {R"({"messages": [{"role": "user", "content": "x"}], "range": 1})", "\"range\": a request cannot set"},
      {R"({"messages": [{"role": "user", "content": "x"}], "namespace": 1})", "\"namespace\""},
      {R"({"messages": [{"role": "user", "content": "x"}], "raise_exception": 1})", "\"raise_exception\""},
      {R"({"messages": [{"role": "user", "content": "x"}], "strftime_now": 1})", "\"strftime_now\""},
  };
  for (const auto& [conversation, message] : cases) EXPECT_THAT(error_of(conversation), HasSubstr(message));
  const std::pair<std::string, std::string> messages[] = {
      {"[null]", "messages[0]: expected an object"},
      {"[{}]", "messages[0].role: is missing; expected a string"},
      {R"([{"role": null, "content": "x"}])", "messages[0].role: is missing"},
      {R"([{"role": "user", "content": "x"}, {"role": 5}])",
       "messages[1].role: expected a string, found a number"},
      {R"([{"role": "<|im_end|>", "content": "x"}])", "messages[0].role: there is no role \"<|im_end|>\""},
      {R"([{"role": "user"}])",
       "messages[0].content: is missing; expected a string or an array of text parts"},
      {R"([{"role": "user", "content": null}])", "messages[0].content: is missing"},
      {R"([{"role": "user", "content": 5}])", "messages[0].content: expected a string or an array"},
      {R"([{"role": "user", "content": [5]}])", "messages[0].content[0]: expected an object"},
      {R"([{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {}}]}])",
       "messages[0].content[1].type: \"image_url\" parts are not supported"},
      {R"([{"role": "user", "content": [{"type": "text"}]}])",
       "messages[0].content[0].text: is missing; expected a string"},
      {R"([{"role": "user", "content": [{"type": "text", "text": 5}]}])",
       "messages[0].content[0].text: expected a string, found a number"},
      {R"([{"role": "user", "content": [{"text": "x"}]}])", "messages[0].content[0].type: is missing"},
      {R"([{"role": "user", "content": [{"type": 5}]}])", "messages[0].content[0].type: expected a string"},
      {R"([{"role": "user", "content": "x", "name": 5}])",
       "messages[0].name: expected a string, found a number"},
      {R"([{"role": "tool", "content": "x", "tool_call_id": 5}])",
       "messages[0].tool_call_id: expected a string"},
      {R"([{"role": "assistant", "refusal": 5}])", "messages[0].refusal: expected a string"},
      {R"([{"role": "assistant", "audio": {"id": "x"}}])", "messages[0].audio: this model reads text only"},
      {R"([{"role": "assistant", "tool_calls": [{"id": 7, "function": {"name": "f"}}]}])",
       "messages[0].tool_calls[0].id: expected a string"},
      {R"([{"role": "assistant", "tool_calls": [{"type": 5, "function": {"name": "f"}}]}])",
       "messages[0].tool_calls[0].type: expected a string"},
      {R"([{"role": "assistant", "tool_calls": [{"type": "custom", "custom": {"name": "f"}}]}])",
       "messages[0].tool_calls[0].type: expected \"function\", found \"custom\""},
      {R"([{"role": "assistant", "tool_calls": [{"id": "x"}]}])",
       "messages[0].tool_calls[0].function: is missing; expected {\"name\""},
      {R"([{"role": "assistant", "function_call": "f"}])", "messages[0].function_call: expected an object"},
      {R"([{"role": "assistant", "function_call": {}}])", "messages[0].function_call.name: is missing"},
      {R"([{"role": "assistant", "function_call": {"name": "f"}, "tool_calls": []}])",
       "messages[0].function_call: stands beside tool_calls"},
      {R"([{"role": "assistant", "tool_calls": 5}])", "messages[0].tool_calls: expected an array"},
      {R"([{"role": "assistant", "tool_calls": [5]}])", "messages[0].tool_calls[0]: expected an object"},
      {R"([{"role": "assistant", "tool_calls": [{"function": 5}]}])",
       "messages[0].tool_calls[0].function: expected"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {}}]}])",
       "messages[0].tool_calls[0].function.name: is missing; expected a string"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}])",
       "messages[0].tool_calls[0].function.arguments: expected an object"},
      {R"([{"role": "assistant", "content": "x", "reasoning_content": 5}])",
       "messages[0].reasoning_content: expected a string"},
  };
  for (const auto& [list, message] : messages) EXPECT_THAT(error_of_messages(list), HasSubstr(message));
}

// Argument forms: what a template does with arguments decides what it is given.

std::string call_with(const ChatTemplate& chat, const std::string& arguments) {
  return chat
      .render(parse_conversation(test::joined(
          {R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": )",
           arguments, "}}]}]}"})))
      .text();
}

constexpr std::string_view kQuoting =
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments|tojson }}{% endfor %}{% "
    "endfor %}";
constexpr std::string_view kAdding =
    "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ '<' + c.function.arguments + '>' }}{% endfor "
    "%}"
    "{% endfor %}";

TEST(ArgumentForm, IsFoundByTrying) {
  EXPECT_EQ(qwen3().argument_form(), ArgumentForm::as_given);
  EXPECT_EQ(ChatTemplate(kQuoting, "t").argument_form(), ArgumentForm::object);
  EXPECT_EQ(ChatTemplate(kAdding, "t").argument_form(), ArgumentForm::text);
  EXPECT_EQ(ChatTemplate("no tools", "t").argument_form(), ArgumentForm::as_given);
}

TEST(ArgumentForm, TextAndObjectsGiveTheSamePrompt) {
  for (const auto source : {kQuoting, kAdding}) {
    const ChatTemplate chat(source, "t");
    const auto expected = source == kQuoting ? R"({"x": [1, 2.0, "é"]})" : R"(<{"x": [1, 2.0, "é"]}>)";
    EXPECT_EQ(call_with(chat, R"({"x": [1, 2.0, "é"]})"), expected);
    EXPECT_EQ(call_with(chat, R"("{\"x\": [1, 2.0, \"é\"]}")"), expected);
  }
}

TEST(ArgumentForm, TextThatIsNoObjectIsRefusedWhereAnObjectIsNeeded) {
  const ChatTemplate chat(kQuoting, "t");
  for (const auto* arguments : {R"("{")", R"("[1]")", R"("5")"}) {
    EXPECT_THROW(call_with(chat, arguments), UsageError) << arguments;
  }
}

TEST(ArgumentForm, NoArgumentsAreAnEmptyObject) {
  const auto* const showing =
      "{% for m in messages %}{% for c in m.tool_calls or [] %}{% if c.function.arguments is string %}{{ "
      "c.function.arguments }}{% else %}{{ c.function.arguments|tojson }}{% endif %}{% endfor %}{% endfor %}";
  for (const auto* none : {R"("")", R"(" \n")", "null", "{}", R"("{}")"}) {
    EXPECT_EQ(call_with(ChatTemplate(kQuoting, "t"), none), "{}") << none;
    EXPECT_EQ(call_with(ChatTemplate(kAdding, "t"), none), "<{}>") << none;
    EXPECT_EQ(call_with(ChatTemplate(showing, "t"), none), "{}") << none;
  }
}

// What costs messages times messages is no loop without end.
TEST(ChatTemplate, EachOfManyMessagesMayBeComparedWithAllOthers) {
  std::string messages;
  for (int i = 0; i < 1000; ++i) {
    messages += i == 0 ? "[" : ",";
    messages += test::joined({R"({"role": "user", "content": ")", std::string(500, 'x'), "\"}"});
  }
  const auto conversation = parse_conversation(test::joined({R"({"messages": )", messages, "]}"}));
  const auto size_of = [&](const char* source) {
    return ChatTemplate(source, "t").render(conversation).text().size();
  };
  EXPECT_EQ(size_of("{% for m in messages %}{% for later in messages[loop.index:] %}{% if later.role == "
                    "'assistant' %}{{ 1 }}{% endif %}{% endfor %}{{ m.content }}{% endfor %}"),
            1000U * 500);
  EXPECT_EQ(
      size_of("{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s + '<' + m.role + "
              "'>' + m.content + '!' %}{% endfor %}{{ ns.s }}"),
      1000U * 507);
}

TEST(ChatTemplate, ManyMessagesArePaidForByTheirNumber) {
  std::string messages = "[";
  for (int i = 0; i < 20000; ++i) {
    messages += i == 0 ? "" : ",";
    messages += i % 2 == 0 ? R"({"role": "user", "content": "some words of a message"})"
                           : R"({"role": "assistant", "content": "some words of a message"})";
  }
  EXPECT_GT(prompt_of(messages + "]").size(), 20000U * 40);
  const auto long_text =
      test::joined({R"([{"role": "user", "content": ")", std::string(20'000'000, 'x'), "\"}]"});
  EXPECT_GT(prompt_of(long_text).size(), 20'000'000U);
}

TEST(ChatTemplate, FailsAsTemplateErrorsDo) {
  const auto conversation = parse_conversation(R"({"messages": [{"role": "user", "content": "x"}]})");
  EXPECT_THROW(ChatTemplate("{{ nope.x }}", "t").render(conversation), jinja::TemplateError);
  EXPECT_THROW(ChatTemplate("{{ raise_exception('no') }}", "t").render(conversation), jinja::TemplateRefusal);
  EXPECT_THROW(ChatTemplate("{% if %}", "t"), jinja::TemplateError);
}

}  // namespace
}  // namespace inferno
