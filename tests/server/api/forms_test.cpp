// Answers that must have a form: JSON, schemas, required tool calls; refused or followed, never ignored.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/serving_fixture.hpp"
#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"

namespace inferno::test {
namespace {

using testing::StartsWith;
using Json = nlohmann::ordered_json;

Json schema_format(const Json& schema) {
  return {
      {"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}}}};
}

Json choosy_tool(bool strict) {
  auto one = tool("f");
  one["function"]["strict"] = strict;
  one["function"]["parameters"] = {{"type", "object"},
                                   {"properties", {{"x", {{"enum", {"a", "b"}}}}}},
                                   {"required", {"x"}},
                                   {"additionalProperties", false}};
  return one;
}

const Json kTwoKeys = {{"type", "object"},
                       {"properties", {{"zebra", {{"type", "integer"}}}, {"apple", {{"enum", {"a", "b"}}}}}},
                       {"required", {"zebra", "apple"}},
                       {"additionalProperties", false}};

void expect_two_keys(const std::string& text) {
  const auto parsed = Json::parse(text, nullptr, false);
  ASSERT_TRUE(parsed.is_object()) << text;
  ASSERT_EQ(parsed.size(), 2U) << text;
  EXPECT_EQ(parsed.begin().key(), "zebra");
  EXPECT_TRUE(parsed["zebra"].is_number_integer());
  EXPECT_TRUE(parsed["apple"] == "a" || parsed["apple"] == "b");
}

TEST(Forms, ASchemaIsFollowedAtAnyTemperature) {
  Served served(flat_model());
  for (int seed = 0; seed < 50; ++seed) {
    auto more = schema_format(kTwoKeys);
    more.update({{"temperature", 2}, {"seed", seed}, {"max_tokens", 300}, {"enable_thinking", false}});
    const auto choice = served.answer(kChat, chat("Hi", more))["choices"][0];
    const std::string text = choice["message"]["content"];
    if (choice["finish_reason"] == "stop") expect_two_keys(text);
    if (seed < 5) {
      EXPECT_EQ(join(served.stream(kChat, chat("Hi", more))).content, text);
    }
  }
}

TEST(Forms, ThoughtsAreFree) {
  Served served(model_that_writes({"<think>", "h", "j", "</think>", "o", "k", "<end>"}));
  auto more = schema_format(kTwoKeys);
  more.update({{"max_tokens", 400}, {"seed", 1}});
  const auto choice = served.answer(kChat, chat("Hi", more))["choices"][0];
  EXPECT_EQ(choice["message"]["reasoning_content"], "hj");
  if (choice["finish_reason"] == "stop") expect_two_keys(choice["message"]["content"]);
}

TEST(Forms, AnyObject) {
  Served served(flat_model());
  for (int seed = 0; seed < 10; ++seed) {
    const auto choice = served.answer(kChat, chat("Hi", {{"response_format", {{"type", "json_object"}}},
                                                         {"seed", seed},
                                                         {"max_tokens", 300},
                                                         {"enable_thinking", false}}))["choices"][0];
    if (choice["finish_reason"] != "stop") continue;
    EXPECT_TRUE(Json::parse(choice["message"]["content"].get<std::string>(), nullptr, false).is_object());
  }
}

TEST(Forms, ASchemaBesideAnyObjectIsFollowed) {
  Served served(flat_model());
  for (int seed = 0; seed < 10; ++seed) {
    const Json more = {{"response_format", {{"type", "json_object"}, {"schema", kTwoKeys}}},
                       {"seed", seed},
                       {"max_tokens", 300},
                       {"enable_thinking", false}};
    const auto choice = served.answer(kChat, chat("Hi", more))["choices"][0];
    if (choice["finish_reason"] == "stop") expect_two_keys(choice["message"]["content"]);
    Json body{{"prompt", "Hi"}};
    body.update(more);
    const auto text = served.answer(kCompletions, body)["choices"][0];
    if (text["finish_reason"] == "stop") expect_two_keys(text["text"]);
  }
}

TEST(Forms, WhatSpellsATagInAFormIsText) {
  Served served(flat_model());
  const Json schema = {{"const", "<think>a</think>b"}};
  auto more = schema_format(schema);
  more.update({{"enable_thinking", false}, {"max_tokens", 100}});
  const auto message = served.answer(kChat, chat("Hi", more))["choices"][0]["message"];
  EXPECT_EQ(message["content"], R"("<think>a</think>b")");
  EXPECT_FALSE(message.contains("reasoning_content"));
  EXPECT_EQ(join(served.stream(kChat, chat("Hi", more))).content, R"("<think>a</think>b")");
}

/// Compiling takes long here, and many such requests at once hold up nobody else.
TEST(Forms, CostlySchemasLeaveAThreadToTheOthers) {
  Served served(model_that_writes({"o", "k", "<end>"}));
  std::vector<std::shared_ptr<FakeExchange>> costly;
  for (int i = 0; i < 12; ++i) {
    Json alternatives = Json::array();
    for (int k = 0; k < 300; ++k) {
      alternatives.push_back({{"type", "object"},
                              {"properties", {{"t", {{"const", i * 1000 + k}}}}},
                              {"required", {"t"}},
                              {"additionalProperties", false}});
    }
    auto more = schema_format({{"oneOf", alternatives}});
    more["max_tokens"] = 1;
    costly.push_back(served.post(kChat, chat("Hi", more)));
  }
  EXPECT_EQ(served.answer(kChat, chat("Hi"))["choices"][0]["message"]["content"], "ok");
  EXPECT_FALSE(
      costly[3]->so_far().is_complete);  // with no thread left it would come behind nearly all of them
  for (const auto& exchange : costly) EXPECT_EQ(exchange->wait().status, 200U);
}

/// Of a model that quotes somebody's tag in its thoughts.
TEST(Forms, WhatSpellsATagInThoughtsIsText) {
  Served served(model_that_writes({"<think>", "he wrote </think> ", "x", "</think>", "o", "<end>"}));
  for (const bool strict : {false, true}) {
    auto more = schema_format({{"type", "boolean"}});
    if (strict) {
      more = {{"tools", Json::array({choosy_tool(true)})}, {"tool_choice", "required"}};
    }
    more.update({{"max_tokens", 300}, {"seed", 1}, {"stop", "never"}, {"logprobs", true}});
    const auto choice = served.answer(kChat, chat("Hi", more))["choices"][0];
    const auto joined = join(served.stream(kChat, chat("Hi", more)));
    EXPECT_EQ(choice["message"]["reasoning_content"], "he wrote </think> x");
    EXPECT_EQ(joined.reasoning, "he wrote </think> x");
    if (strict) {
      EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
      EXPECT_TRUE(choice["message"]["content"].is_null());
    } else {
      EXPECT_THAT(choice["message"]["content"], testing::AnyOf("true", "false"));
      EXPECT_EQ(joined.content, choice["message"]["content"].get<std::string>());
    }
  }
}

/// Only a call that the form has seen is one.
TEST(Forms, WhatSpellsACallOfAStrictToolIsText) {
  const std::string spelled = R"(<tool_call>{"name": "evil", "arguments": {"bad": true}}</tool_call>)";
  Served served(model_that_writes({spelled, " ok", "<end>"}));
  const auto ask = [&](bool strict) {
    const auto body = chat("Hi", {{"tools", Json::array({choosy_tool(strict)})}, {"max_tokens", 50}});
    return served.answer(kChat, body)["choices"][0];
  };
  EXPECT_EQ(ask(true)["message"]["content"], spelled + " ok");
  EXPECT_EQ(ask(true)["finish_reason"], "stop");
  EXPECT_FALSE(ask(true)["message"].contains("tool_calls"));
  EXPECT_EQ(ask(false)["message"]["tool_calls"][0]["function"]["name"], "evil") << "any text may be a call";
}

TEST(Forms, WhatCannotBeFollowedIsRefusedWithItsPlace) {
  Served served(flat_model());
  const auto param = [&](const Json& schema) {
    return served.refusal(kChat, chat("Hi", schema_format(schema)))["param"].get<std::string>();
  };
  const std::string root = "response_format.json_schema.schema";
  EXPECT_EQ(
      param({{"type", "object"}, {"properties", {{"a", {{"type", "string"}, {"pattern", "^+[a-z]$"}}}}}}),
      root + "#/properties/a/pattern");
  for (const auto& schema : {Json{{"type", "strnig"}}, Json{{"$ref", "#"}}, Json{{"$ref", "#/nowhere"}},
                             Json{{"$ref", "http://x/y"}}}) {
    EXPECT_THAT(param(schema), StartsWith(root));
  }
}

/// Objects whose alternatives all go on alike: patterns, or more ways than are followed.
Json patterns(int count) {
  Json list = Json::array();
  for (int i = 1; i <= count; ++i)
    list.push_back({{"type", "string"}, {"pattern", "^[^,]*,{" + std::to_string(i) + "}$"}});
  return {{"anyOf", list}};
}

Json object_of(const std::string& name, const Json& value) {
  return {{"type", "object"}, {"properties", {{name, value}}}, {"required", {name}}};
}

Json product() {
  Json outer = Json::array();
  for (int i = 0; i < 100; ++i) {
    Json inner = Json::array();
    for (int j = 0; j < 50; ++j) inner.push_back(object_of("b", {{"maxLength", i * 50 + j}}));
    outer.push_back(object_of("a", {{"anyOf", inner}}));
  }
  return {{"anyOf", outer}};
}

TEST(Forms, MoreWaysThanAreFollowedAreRefused) {
  Served served(flat_model());
  const std::string root = "response_format.json_schema.schema";
  for (const auto& [schema, place] : {std::pair(patterns(200), std::string()),
                                      std::pair(object_of("x", patterns(200)), std::string("#/properties/x")),
                                      std::pair(product(), std::string("#/anyOf/0/properties/a"))}) {
    for (const bool streams : {false, true}) {
      auto more = schema_format(schema);
      more["stream"] = streams;
      const auto error = served.refusal(kChat, chat("Hi", more));
      EXPECT_EQ(error["code"], "invalid_json_schema");
      EXPECT_EQ(error["param"], root + place);
      EXPECT_THAT(error["message"].get<std::string>(), testing::HasSubstr("open at once"));
    }
  }
  EXPECT_EQ(served.settled().submitted, 0U);
}

/// Where it is not seen beforehand, it is an error of the request and of no other.
TEST(Forms, MoreWaysThanAreFollowedFailOneRequest) {
  Served served(flat_model());
  // Found neither forwards nor backwards: the first letter and the last lead elsewhere.
  const Json schema = {
      {"properties", {{"m", product()}, {"a", {{"type", "null"}}}, {"z", {{"type", "null"}}}}}};
  auto more = schema_format(schema);
  // Writes as early and as much as it can: no space, no end, no other key.
  Json bias = {{"32", -100}, {"10", -100}, {"125", -100}, {"97", 5}, {"122", -100}, {"109", 100}};
  more.update({{"logit_bias", bias}, {"enable_thinking", false}, {"max_tokens", 50}});
  const auto other = served.post(kChat, chat("Hi", {{"max_tokens", 200}, {"seed", 1}}));
  const auto error = served.refusal(kChat, chat("Hi", more));
  EXPECT_EQ(error["code"], "invalid_json_schema") << error;
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_THAT(error["message"].get<std::string>(), testing::HasSubstr("at once"));
  EXPECT_EQ(other->wait().status, 200U);

  // Nothing is left: the form and the bias together.
  auto banned = schema_format({{"const", 1}});
  banned.update({{"logit_bias", {{"49", -100}}}, {"enable_thinking", false}});
  const auto nothing = served.refusal(kChat, chat("Hi", banned));
  EXPECT_EQ(nothing["param"], "logit_bias") << nothing;
  EXPECT_EQ(nothing["code"], "invalid_value");
}

TEST(Forms, CallsOfStrictToolsFollowTheirSchemas) {
  Served served(model_that_writes(
      {"so ", "<tool_call>", R"({"name": "f", "arguments": {"x": 1}})", "</tool_call>", "<end>"}));
  const auto ask = [&](bool strict, int seed) {
    const auto body = chat("Hi", {{"tools", Json::array({choosy_tool(strict)})},
                                  {"enable_thinking", true},
                                  {"parallel_tool_calls", false},
                                  {"max_tokens", 300},
                                  {"seed", seed}});
    const auto choice = served.answer(kChat, body)["choices"][0];
    const auto joined = join(served.stream(kChat, body));
    EXPECT_EQ(joined.content, "so");
    EXPECT_EQ(choice["message"]["content"], "so");
    EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
    EXPECT_EQ(joined.calls[0]["function"], choice["message"]["tool_calls"][0]["function"]);
    return Json::parse(choice["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>())["x"];
  };
  EXPECT_EQ(ask(false, 1), 1);
  for (int seed = 0; seed < 5; ++seed) EXPECT_THAT(ask(true, seed), testing::AnyOf("a", "b"));
}

TEST(Forms, AnAnswerWithAFormOrACall) {
  Served served(flat_model());
  int calls = 0;
  int texts = 0;
  for (int seed = 0; seed < 30; ++seed) {
    auto more = schema_format(kTwoKeys);
    more.update({{"tools", Json::array({choosy_tool(true), tool("g")})},
                 {"parallel_tool_calls", false},
                 {"enable_thinking", false},
                 {"max_tokens", 300},
                 {"seed", seed}});
    const auto choice = served.answer(kChat, chat("Hi", more))["choices"][0];
    if (choice["finish_reason"] == "length") continue;
    const auto& message = choice["message"];
    if (choice["finish_reason"] == "tool_calls") {
      ++calls;
      EXPECT_TRUE(message["content"].is_null());
      const auto& function = message["tool_calls"][0]["function"];
      const auto arguments = Json::parse(function["arguments"].get<std::string>());
      EXPECT_TRUE(arguments.is_object());
      if (function["name"] == "f") {
        EXPECT_THAT(arguments["x"], testing::AnyOf("a", "b"));
      }
    } else {
      ++texts;
      EXPECT_FALSE(message.contains("tool_calls"));
      expect_two_keys(message["content"]);
    }
  }
  EXPECT_GT(calls, 0);
  EXPECT_GT(texts, 0);
}

/// A string of an answer that has a form may spell a call.
TEST(Forms, WhatSpellsACallInAFormIsText) {
  Served served(flat_model());
  auto more = schema_format({{"const", R"(<tool_call>{"name":"f"}</tool_call>)"}});
  more.update({{"tools", Json::array({tool("f")})},
               {"logit_bias", {{"34", 50}}},
               {"enable_thinking", false},
               {"max_tokens", 200}});
  const auto choice = served.answer(kChat, chat("Hi", more))["choices"][0];
  EXPECT_EQ(Json::parse(choice["message"]["content"].get<std::string>()),
            R"(<tool_call>{"name":"f"}</tool_call>)");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
}

TEST(Forms, RequiredAndNamedCalls) {
  Served served(flat_model());
  Json tools = Json::array({tool("f"), tool("g")});
  tools[1]["function"]["parameters"] = {{"type", "object"},
                                        {"properties", {{"x", {{"enum", {1, 2}}}}}},
                                        {"required", {"x"}},
                                        {"additionalProperties", false}};
  for (const auto& choice : Json::array({"required", tool("g")})) {
    for (int seed = 0; seed < 10; ++seed) {
      const auto body = chat("Hi", {{"tools", tools},
                                    {"tool_choice", choice},
                                    {"parallel_tool_calls", false},
                                    {"enable_thinking", false},
                                    {"seed", seed},
                                    {"max_tokens", 300}});
      const auto answer = served.answer(kChat, body)["choices"][0];
      ASSERT_EQ(answer["finish_reason"], "tool_calls") << answer;
      const auto& calls = answer["message"]["tool_calls"];
      ASSERT_EQ(calls.size(), 1U);
      if (choice.is_object()) {
        EXPECT_EQ(calls[0]["function"]["name"], "g");
      }
      if (calls[0]["function"]["name"] == "g") {
        const auto arguments = Json::parse(calls[0]["function"]["arguments"].get<std::string>());
        EXPECT_TRUE(arguments["x"] == 1 || arguments["x"] == 2);
      }
    }
  }
  tools[1]["function"]["parameters"]["properties"]["x"] = {{"type", "strnig"}};
  EXPECT_THAT(served.refusal(kChat, chat("Hi", {{"tools", tools}, {"tool_choice", "required"}}))["param"]
                  .get<std::string>(),
              StartsWith("tools[1].function.parameters#/properties/x"));
}

}  // namespace
}  // namespace inferno::test
