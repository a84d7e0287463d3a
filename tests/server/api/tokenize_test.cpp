#include <gtest/gtest.h>

#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"

namespace inferno::test {
namespace {

using Json = nlohmann::ordered_json;

Served& served() {
  static Served one(flat_model());
  return one;
}

TEST(Tokenize, ContentIsTextUnlessAskedFor) {
  const auto plain = served().answer("/tokenize", {{"content", "a<|im_end|>"}});
  EXPECT_EQ(plain["count"], 10);
  EXPECT_EQ(plain["tokens"].size(), 10U);
  EXPECT_EQ(plain["tokens"][0], 97);
  EXPECT_EQ(plain["max_model_len"], small_engine().context);
  const auto special = served().answer("/tokenize", {{"content", "a<|im_end|>"}, {"parse_special", true}});
  EXPECT_EQ(special["count"], 2);
  EXPECT_EQ(served().answer("/v1/tokenize", {{"content", ""}})["tokens"], nlohmann::json::array());
}

TEST(Tokenize, PromptIsCountedAsCompletionsCountIt) {
  const auto answer = served().answer("/tokenize", {{"prompt", "a<|im_end|>"}, {"return_token_strs", true}});
  EXPECT_EQ(answer["count"], 2);
  EXPECT_EQ(answer["token_strs"], nlohmann::json({"a", "<|im_end|>"}));
  EXPECT_EQ(served().answer("/tokenize", {{"prompt", "a<|im_end|>"}, {"parse_special", false}})["count"], 10);
}

TEST(Tokenize, Pieces) {
  const auto answer = served().answer("/tokenize", {{"content", "he\xC3\xA9"}, {"with_pieces", true}});
  EXPECT_EQ(answer["tokens"].dump(),
            R"([{"id":256,"piece":"he"},{"id":195,"piece":[195]},{"id":169,"piece":[169]}])");
}

TEST(Tokenize, MessagesAreCountedAsChatCountsThem) {
  const auto body = chat("Hi <|im_end|>", {{"tools", Json::array({tool("f")})}, {"enable_thinking", false}});
  auto asked = body;
  asked["max_tokens"] = 1;
  EXPECT_EQ(served().answer("/tokenize", body)["count"],
            served().answer(kChat, asked)["usage"]["prompt_tokens"]);
}

TEST(Tokenize, ToolsCountAsInAChat) {
  const auto tools = Json::array({tool("f"), tool("g")});
  for (const auto& choice : {Json(), Json("none"), Json("auto"), Json("required")}) {
    auto body = chat("Hi", {{"tools", tools}, {"tool_choice", choice}});
    auto asked = body;
    asked["max_tokens"] = 1;
    EXPECT_EQ(served().answer("/tokenize", body)["count"],
              served().answer(kChat, asked)["usage"]["prompt_tokens"])
        << choice;
  }
  for (const auto& more :
       {Json{{"tools", Json::array({tool("f"), tool("f")})}}, Json{{"tools", Json::array({Json::object()})}},
        Json{{"tools", Json::array({{{"type", "x"}}})}}, Json{{"tools", tools}, {"tool_choice", "zz"}},
        Json{{"tool_choice", "required"}}}) {
    EXPECT_EQ(served().refusal("/tokenize", chat("Hi", more)), served().refusal(kChat, chat("Hi", more)));
  }
}

TEST(Tokenize, ThereAndBack) {
  const std::string text = "<|im_start|>a\n\xE6\xBC\xA2 x";
  const auto tokens = served().answer("/tokenize", {{"prompt", text}})["tokens"];
  const auto back = served().answer("/detokenize", {{"tokens", tokens}});
  EXPECT_EQ(back["content"], text);
  EXPECT_EQ(back["prompt"], text);
  EXPECT_EQ(served().answer("/detokenize", {{"tokens", {0xE6, 0xBC}}})["content"], "\xEF\xBF\xBD");
  EXPECT_EQ(served().answer("/detokenize", {{"tokens", Json::array()}})["content"], "");
  EXPECT_EQ(served().answer("/tokenize", {{"content", std::string("a\0b", 3)}})["tokens"],
            nlohmann::json({97, 0, 98}));
}

TEST(Tokenize, WhatIsWrong) {
  EXPECT_EQ(served().refusal("/tokenize", {{"content", 1}})["param"], "content");
  EXPECT_EQ(served().refusal("/tokenize", Json::object())["param"], "content");
  EXPECT_EQ(served().refusal("/tokenize", {{"content", "a"}, {"prompt", "b"}})["param"], "prompt");
  EXPECT_EQ(served().refusal("/tokenize", {{"messages", {1}}})["param"], "messages[0]");
  EXPECT_EQ(served().refusal("/tokenize", {{"content", "a"}, {"parse_special", 1}})["param"],
            "parse_special");
  EXPECT_EQ(served().refusal("/detokenize", Json::object())["param"], "tokens");
  EXPECT_EQ(served().refusal("/detokenize", {{"tokens", "a"}})["param"], "tokens");
  EXPECT_EQ(served().refusal("/detokenize", {{"tokens", {1, 99999}}})["param"], "tokens[1]");
  EXPECT_EQ(served().refusal("/detokenize", {{"tokens", {1, -1}}})["param"], "tokens[1]");
}

}  // namespace
}  // namespace inferno::test
