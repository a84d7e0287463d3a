// Tool calls: while they are written, cut off, drafted in thoughts, one after the other.

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <utility>

#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::ordered_json;

Json with_tools(const Json& more = {}) {
  auto body = chat("Hi", {{"tools", Json::array({tool("f"), tool("g")})}});
  if (more.is_object()) body.update(more);
  return body;
}

/// Parts as pieces of a script: each takes as many characters as it needs to be new, since a token has one
/// successor; tags stand for themselves.
std::vector<std::string> script(const std::vector<std::string>& parts) {
  std::vector<std::string> all;
  for (const auto& part : parts) {
    if (part.front() == '<') {
      all.push_back(part);
      continue;
    }
    std::string rest = part;
    bool is_first = true;
    while (!rest.empty()) {
      std::size_t size = 1;
      while (size < rest.size() && std::find(all.begin(), all.end(), rest.substr(0, size)) != all.end())
        ++size;
      auto piece = rest.substr(0, size);
      rest.erase(0, size);
      // What is left over goes to the piece before.
      if (!is_first && std::find(all.begin(), all.end(), piece) != all.end()) {
        all.back() += piece;
      } else {
        all.push_back(std::move(piece));
      }
      is_first = false;
    }
  }
  return all;
}

TEST(Tools, OneCall) {
  Served served(model_that_writes(
      script({"<tool_call>", "\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n", "</tool_call>", "<end>"})));
  for (const auto& more : {Json(), Json{{"tool_choice", "auto"}}, Json{{"parallel_tool_calls", false}}}) {
    const auto choice = served.answer(kChat, with_tools(more))["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_TRUE(choice["message"]["content"].is_null());
    const auto& calls = choice["message"]["tool_calls"];
    ASSERT_EQ(calls.size(), 1U);
    EXPECT_EQ(calls[0]["type"], "function");
    EXPECT_THAT(calls[0]["id"].get<std::string>(), StartsWith("call_"));
    EXPECT_EQ(calls[0]["function"]["name"], "f");
    EXPECT_EQ(calls[0]["function"]["arguments"], "{\"x\": 1}");

    const auto joined = join(served.stream(kChat, with_tools(more)));
    EXPECT_EQ(joined.finish_reasons.front(), "tool_calls");
    EXPECT_EQ(joined.content, "");
    ASSERT_EQ(joined.calls.size(), 1U);
    EXPECT_EQ(joined.calls[0]["function"], calls[0]["function"]);
    EXPECT_NE(joined.calls[0]["id"], calls[0]["id"]);
  }
}

TEST(Tools, NoneMeansNone) {
  const auto text = std::string("{\"name\": \"f\", \"arguments\": {\"x\": 1}}");
  Served served(model_that_writes(script({"<tool_call>", text, "</tool_call>", "<end>"})));
  const auto without = served.answer(kChat, chat("Hi"));
  const auto none = served.answer(kChat, with_tools({{"tool_choice", "none"}}));
  for (const auto& answer : {without, none}) {
    const auto& choice = answer["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_FALSE(choice["message"].contains("tool_calls"));
    EXPECT_EQ(choice["message"]["content"], "<tool_call>" + text + "</tool_call>");
  }
  // The template did not see them either.
  EXPECT_EQ(none["usage"]["prompt_tokens"], without["usage"]["prompt_tokens"]);
}

TEST(Tools, ACallThatIsCutOffIsNone) {
  const auto pieces =
      script({"<tool_call>", "\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n", "</tool_call>", "<end>"});
  Served served(model_that_writes(pieces));
  std::string written;
  for (std::size_t most = 1; most < pieces.size(); ++most) {
    written += pieces[most - 1];
    const auto body = with_tools({{"max_tokens", most}});
    const auto choice = served.answer(kChat, body)["choices"][0];
    const auto joined = join(served.stream(kChat, body));
    EXPECT_EQ(choice["finish_reason"], "length");
    EXPECT_EQ(joined.finish_reasons.front(), "length");
    EXPECT_EQ(joined.content, "");
    const auto content = choice["message"]["content"];
    EXPECT_TRUE(content.is_null() || content == "") << content;
    const bool is_whole = written.find("}}") != std::string::npos;
    EXPECT_EQ(choice["message"].contains("tool_calls"), is_whole) << written;
    if (is_whole) {
      EXPECT_EQ(joined.calls[0]["function"]["arguments"], "{\"x\": 1}");
    }
  }
}

/// What is streamed of a call that a stop string cuts must not look like a call that is done.
TEST(Tools, AStopStringWithinACallLeavesItUnfinished) {
  const std::string call = R"({"name": "f", "arguments": {"x":1}})";
  for (const auto& pieces :
       std::vector<std::vector<std::string>>{{"ok ", "<tool_call>", call, "</tool_call>", "<end>"},
                                             {"<tool_call>", R"({"name": "f", "arguments")", R"(: {"x")",
                                              ":1", "}", "} \n", "</tool_call>", "<end>"}}) {
    Served served(model_that_writes(pieces));
    for (const auto& [stop, whole] : std::vector<std::pair<std::string, bool>>{
             {"}}", false}, {":1", false}, {"x", false}, {"</tool_call>", true}}) {
      const auto body = with_tools({{"stop", stop}});
      const auto choice = served.answer(kChat, body)["choices"][0];
      const auto joined = join(served.stream(kChat, body));
      EXPECT_EQ(choice["finish_reason"], whole ? "tool_calls" : "length") << stop;
      EXPECT_EQ(joined.finish_reasons.front(), choice["finish_reason"].get<std::string>()) << stop;
      EXPECT_EQ(choice["message"].contains("tool_calls"), whole) << stop;
      ASSERT_EQ(joined.calls.size(), 1U) << stop;
      EXPECT_EQ(joined.calls[0]["function"]["arguments"] == R"({"x":1})", whole) << stop;
    }
  }
  // The end token does the same, also behind a call that is whole.
  Served ends(model_that_writes({"<tool_call>", R"({"name": "f", "arguments": {)", "<end>"}));
  EXPECT_EQ(ends.answer(kChat, with_tools())["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(join(ends.stream(kChat, with_tools())).finish_reasons.front(), "length");
  Served second(model_that_writes(
      {"<tool_call>", call, "</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {\"y\": 2", "<end>"}));
  const auto choice = second.answer(kChat, with_tools())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1U);
  EXPECT_EQ(join(second.stream(kChat, with_tools())).finish_reasons.front(), "length");
  // Outside of calls it is an end like any other.
  Served text(model_that_writes({"ok", " then", "<end>"}));
  EXPECT_EQ(text.answer(kChat, with_tools({{"stop", " then"}}))["choices"][0]["finish_reason"], "stop");
}

/// Before anything of the call can be told, too.
TEST(Tools, ACallThatIsCutInItsHeaderIsCutOff) {
  const std::vector<std::string> call = {
      "<tool_call>", "\n{\"name\": \"", "gut", "\", \"arguments\": {}}", "</tool_call>", "<end>"};
  Served served(model_that_writes(call));
  for (const auto* stop : {"name", "gut", "arguments", "{"}) {
    const auto body = with_tools({{"stop", stop}});
    const auto choice = served.answer(kChat, body)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "length") << stop;
    EXPECT_EQ(choice["message"]["content"], "") << stop;
    EXPECT_FALSE(choice["message"].contains("tool_calls")) << stop;
    const auto joined = join(served.stream(kChat, body));
    EXPECT_EQ(joined.finish_reasons.front(), "length") << stop;
    EXPECT_EQ(joined.content, "") << stop;
  }
  Served ends(model_that_writes({"<tool_call>", "\n{\"name\": \"f\", \"", "<end>"}));
  EXPECT_EQ(ends.answer(kChat, with_tools())["choices"][0]["finish_reason"], "length");
}

TEST(Tools, ATagThatIsSpelledAndCutLeavesNoPieceOfIt) {
  Served served(model_that_writes({"ok ", "<to", "ol_", "call", ">{", "<end>"}));
  for (const int most : {2, 3, 4}) {
    const auto body = with_tools({{"max_tokens", most}});
    const auto choice = served.answer(kChat, body)["choices"][0];
    EXPECT_EQ(choice["message"]["content"], "ok ") << most;
    EXPECT_EQ(choice["finish_reason"], "length") << most;
    EXPECT_EQ(join(served.stream(kChat, body)).content, "ok ") << most;
  }
}

TEST(Tools, ArgumentsThatAreNoJsonMakeNoCall) {
  const std::string block = R"({"name": "f", "arguments": {"x":oops}})";
  Served served(model_that_writes({"so ", "<tool_call>", block, "</tool_call>", " then", "<end>"}));
  for (const auto& more : {Json(), Json{{"parallel_tool_calls", false}}}) {
    const auto choice = served.answer(kChat, with_tools(more))["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_FALSE(choice["message"].contains("tool_calls")) << choice;
    EXPECT_EQ(choice["message"]["content"], "so " + block + " then");
    const auto joined = join(served.stream(kChat, with_tools(more)));
    EXPECT_EQ(joined.finish_reasons.front(), "length");  // its beginning was sent
    EXPECT_EQ(joined.content, "so " + block + " then");
  }
}

// What was sent of a call that turned out to be none never looks like all of it, nor like an answer that
// ended well.
TEST(Tools, ACallThatGoesWrongOnceItHasBegunIsCutOffInAStream) {
  const std::string good = R"({"name": "f", "arguments": {"x": 2}})";
  for (const std::string block : {
           R"({"name": "f", "arguments": {"x": oops}})",
           "{\"name\": \"f\", \"arguments\": {\"x\": 1}\n",
           R"({"name": "f", "arguments": {"x": 1}, "arguments": {"x": 2}})",
           R"({"name": "f", "arguments": {"x": 1}, "name": "g"})",
           R"({"name": "f", "arguments": {"x": 1}]})",
           "{\"name\": \"f\", \"arguments\": {\"x\": \"a\nb\"}}",
           R"({"name": "f", "arguments": "{\"x\": 1}"])",
       }) {
    for (const bool goes_on : {false, true}) {
      std::vector<std::string> pieces = {"<tool_call>", block};
      if (goes_on) pieces.push_back("</tool_call>\n<tool_call>" + good);
      pieces.insert(pieces.end(), {"</tool_call>", "<end>"});
      Served served(model_that_writes(pieces));
      const auto choice = served.answer(kChat, with_tools())["choices"][0];
      EXPECT_EQ(choice["finish_reason"], goes_on ? "tool_calls" : "stop") << block;
      if (goes_on) {
        ASSERT_EQ(choice["message"]["tool_calls"].size(), 1U) << block;
        EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], R"({"x": 2})");
      } else {
        EXPECT_FALSE(choice["message"].contains("tool_calls")) << block;
      }
      const auto joined = join(served.stream(kChat, with_tools()));
      EXPECT_EQ(joined.finish_reasons.front(), "length") << block;
      EXPECT_EQ(Json(joined.content), choice["message"]["content"]) << block;
      ASSERT_EQ(joined.calls.size(), goes_on ? 2U : 1U) << block;
      const auto sent = joined.calls[0]["function"]["arguments"].get<std::string>();
      EXPECT_TRUE(Json::parse(sent, nullptr, false).is_discarded()) << block << ": " << sent;
    }
  }
}

TEST(Tools, WhatIsNoCallOfAFunctionIsContent) {
  for (const std::string block : {R"({"name":"f", "parameters": {"x":1}})",
                                  R"({"name":"f", "arguments": null})", R"({"name":"f", "arguments": [1]})",
                                  R"({"name":"f", "arguments": "5"})", R"({"name":"", "arguments": {}})"}) {
    Served served(model_that_writes({"<tool_call>", block, "</tool_call>", "<end>"}));
    const auto choice = served.answer(kChat, with_tools())["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_FALSE(choice["message"].contains("tool_calls")) << choice;
    EXPECT_EQ(choice["message"]["content"], block);
    const auto joined = join(served.stream(kChat, with_tools()));
    EXPECT_EQ(joined.finish_reasons.front(), "stop");
    EXPECT_EQ(joined.content, block);
    EXPECT_TRUE(joined.calls.empty()) << joined.calls;
  }
}

/// Whoever asked is told what the model called for, and can say so to it.
TEST(Tools, AFunctionThatWasNotDeclaredIsStillACall) {
  Served served(model_that_writes(
      script({"<tool_call>", "{\"name\": \"other\", \"arguments\": {}}", "</tool_call>", "<end>"})));
  const auto choice = served.answer(kChat, with_tools())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "other");
}

TEST(Tools, ADraftInTheThoughtsStaysThere) {
  Served served(
      model_that_writes(script({"<think>", "\n", "<tool_call>", "{\"name\": \"f\", \"arguments\": {}}",
                                "</tool_call>", "</think>", "ok", "<end>"})));
  const auto choice = served.answer(kChat, with_tools())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["message"]["content"], "ok");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_THAT(choice["message"]["reasoning_content"].get<std::string>(), HasSubstr("<tool_call>"));
  const auto joined = join(served.stream(kChat, with_tools()));
  EXPECT_EQ(Json(joined.reasoning), choice["message"]["reasoning_content"]);
  EXPECT_TRUE(joined.calls.empty());
}

// One script for two calls is not possible with one successor a token, so the second is spelled differently.
const std::vector<std::string> kTwoCalls = {
    "ok",
    "<tool_call>",
    "{\"name\": \"f\", \"arguments\": {\"x\": 1}}",
    "</tool_call>\n<tool_call>{\"arguments\": {\"y\": [2, {}]}, \"name\": \"g\"}",
    "</tool_call>",
    "<end>"};

TEST(Tools, ParallelCallsHaveTheirOwnIndexes) {
  Served served(model_that_writes(kTwoCalls));
  const auto choice = served.answer(kChat, with_tools({{"n", 2}, {"temperature", 0}}))["choices"][1];
  EXPECT_EQ(choice["message"]["content"], "ok");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 2U);
  EXPECT_EQ(choice["message"]["tool_calls"][1]["function"]["name"], "g");
  EXPECT_EQ(choice["message"]["tool_calls"][1]["function"]["arguments"], "{\"y\": [2, {}]}");
  const auto joined = join(served.stream(kChat, with_tools()));
  ASSERT_EQ(joined.calls.size(), 2U);
  EXPECT_EQ(joined.content, "ok");
  EXPECT_EQ(joined.calls[0]["function"]["arguments"], "{\"x\": 1}");
  EXPECT_EQ(joined.calls[1]["function"], choice["message"]["tool_calls"][1]["function"]);
  EXPECT_NE(joined.calls[0]["id"], joined.calls[1]["id"]);
}

TEST(Tools, WithoutParallelCallsTheFirstEndsTheAnswer) {
  Served served(model_that_writes(kTwoCalls));
  const auto body = with_tools({{"parallel_tool_calls", false}});
  const auto answer = served.answer(kChat, body);
  EXPECT_EQ(answer["choices"][0]["message"]["tool_calls"].size(), 1U);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 3);
  EXPECT_EQ(join(served.stream(kChat, body)).calls.size(), 1U);
}

TEST(Tools, ResultsAndEarlierCallsGoIntoThePrompt) {
  Served served(model_that_writes({"o", "k", "<end>"}));
  const auto call = [](const Json& arguments) {
    return Json{
        {"id", "call_1"}, {"type", "function"}, {"function", {{"name", "add"}, {"arguments", arguments}}}};
  };
  const auto prompt_tokens = [&](const Json& arguments, const Json& content) {
    return served.answer(
        kChat,
        {{"messages",
          Json::array(
              {{{"role", "user"}, {"content", "1+2?"}},
               {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", Json::array({call(arguments)})}},
               {{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", content}}})}})["usage"]
                                                                                        ["prompt_tokens"];
  };
  const auto as_text = prompt_tokens("{\"b\": 2, \"a\": 1}", "3");
  EXPECT_EQ(prompt_tokens(Json{{"b", 2}, {"a", 1}}, "3"), as_text);
  EXPECT_EQ(prompt_tokens("{\"b\": 2, \"a\": 1}", Json::array({{{"type", "text"}, {"text", "3"}}})), as_text);
}

}  // namespace
}  // namespace inferno::test
