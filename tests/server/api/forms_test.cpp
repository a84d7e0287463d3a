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
