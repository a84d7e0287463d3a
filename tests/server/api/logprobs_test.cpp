// The list of a chat's log-probabilities, and when its tokens are certain.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model_parts.hpp"
#include "server/api/token_gate.hpp"
#include "server/support/scripted_text.hpp"
#include "server/support/served.hpp"

namespace inferno::test {
namespace {

using Json = nlohmann::ordered_json;

TEST(ChatLogprobs, AsManyAsWereAskedFor) {
  Served served(flat_model());
  const auto expected = -std::log(static_cast<float>(served.engine().model().vocab_size()));
  for (const auto& count : Json{nullptr, 0, 1, 5, 20}) {
    const auto body = chat(
        "Hi",
        {{"logprobs", true}, {"top_logprobs", count}, {"max_tokens", 5}, {"temperature", 3}, {"seed", 5}});
    const auto list = served.answer(kChat, body)["choices"][0]["logprobs"]["content"];
    ASSERT_EQ(list.size(), 5U);
    for (const auto& token : list) {
      EXPECT_NEAR(token["logprob"].get<float>(), expected, 1e-3F);
      EXPECT_EQ(token["top_logprobs"].size(), count.is_null() ? 0U : count.get<std::size_t>());
      for (const auto& top : token["top_logprobs"]) {
        EXPECT_EQ(top["logprob"], token["logprob"]);
        EXPECT_TRUE(top.contains("token") && top.contains("bytes"));
      }
    }
    EXPECT_EQ(join(served.stream(kChat, body)).logprobs, list);
  }
  for (const auto& nothing : {Json{{"logprobs", false}}, Json{{"logprobs", false}, {"top_logprobs", 0}},
                              Json{{"top_logprobs", 0}}}) {
    auto body = chat("Hi", {{"max_tokens", 2}});
    body.update(nothing);
    EXPECT_TRUE(served.answer(kChat, body)["choices"][0]["logprobs"].is_null()) << nothing;
  }
}

TEST(ChatLogprobs, PartsOfCharactersHaveTheirBytes) {
  Served served(model_that_writes({"a", "\xF0\x9D", "\x84\x9E", "<end>"}));
  const auto list =
      served.answer(kChat, chat("Hi", {{"logprobs", true}}))["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0]["token"], "a");
  EXPECT_EQ(list[0]["bytes"], nlohmann::json({97}));
  EXPECT_EQ(list[1]["token"], "\\xf0\\x9d");
  EXPECT_EQ(list[2]["token"], "\\x84\\x9e");
  EXPECT_EQ(list[1]["bytes"], nlohmann::json({0xF0, 0x9D}));
  EXPECT_EQ(list[2]["bytes"], nlohmann::json({0x84, 0x9E}));
}

TEST(ChatLogprobs, ControlTokensHaveNoBytes) {
  Served served(flat_model());
  const auto end = served.engine().model().encode("<|im_start|>").front();
  const auto list = served.answer(
      kChat, chat("Hi", {{"logprobs", true},
                         {"max_tokens", 1},
                         {"logit_bias", {{std::to_string(end), 100}}}}))["choices"][0]["logprobs"]["content"];
  EXPECT_EQ(list[0]["token"], "<|im_start|>");
  EXPECT_TRUE(list[0]["bytes"].is_null());
}

class Gate : public testing::Test {
 protected:
  Gate() : model_(flat_model()), gate_(model_.parts().tokenizer, 10) {}

  void push(char c, std::size_t certain) {
    gate_.push({.id = static_cast<unsigned char>(c)});
    gate_.release(certain, ready_);
  }
  std::string ready() {
    std::string text;
    for (const auto& token : ready_) text += static_cast<char>(token.event.id);
    ready_.clear();
    return text;
  }

  Model model_;
  api::TokenGate gate_;
  std::vector<api::PlacedToken> ready_;
};

TEST_F(Gate, TokensComeWithTheirText) {
  push('a', 1);
  EXPECT_EQ(ready(), "a");
  push('b', 0);
  push('c', 0);
  EXPECT_EQ(ready(), "");
  push('d', 2);
  EXPECT_EQ(ready(), "bc");
  gate_.finish({.end = RequestEnd::length, .text = "d"}, ready_);
  EXPECT_EQ(ready_.front().offset, 13U);
  EXPECT_EQ(ready(), "d");
}

TEST_F(Gate, WhatAStopStringCutsIsDropped) {
  push('a', 1);
  push('b', 0);
  push('c', 0);
  gate_.finish({.end = RequestEnd::stop, .stop_string = "bc"}, ready_);
  EXPECT_EQ(ready(), "a");
}

TEST_F(Gate, TheEndTokenIsNoTokenOfTheText) {
  push('a', 1);
  const auto end = model_.parts().tokenizer.end_tokens().front();
  gate_.push({.id = end});
  gate_.finish({.end = RequestEnd::stop, .stop_id = end}, ready_);
  EXPECT_EQ(ready(), "a");
}

TEST_F(Gate, OffsetsCountCharacters) {
  push('\xC3', 0);
  push('\xA9', 2);
  push('x', 1);
  ASSERT_EQ(ready_.size(), 3U);
  EXPECT_EQ(ready_[0].offset, 10U);
  EXPECT_EQ(ready_[1].offset, 10U);
  EXPECT_EQ(ready_[2].offset, 11U);
}

TEST_F(Gate, WhatBreaksACharacterOffBeginsBehindIt) {
  for (const char c : {'\xF0', '\x9D', 'x', '\xE0', '\x80', '\xC3', '\xC3', '\xA9', 'y'}) push(c, 1000);
  std::vector<std::size_t> offsets;
  for (const auto& token : ready_) offsets.push_back(token.offset);
  // U+FFFD for F0 9D; x; U+FFFD each for E0, 80 and C3; é; y
  EXPECT_EQ(offsets, (std::vector<std::size_t>{10, 10, 11, 12, 13, 14, 15, 15, 16}));
}

/// U+FFFD is certain before the token that shows it is.
TEST_F(Gate, WhatMayBelongToAStopStringWaitsBehindABrokenCharacter) {
  push('\xF0', 0);
  push('x', 3);
  EXPECT_EQ(ready(), "\xF0");
  gate_.finish({.end = RequestEnd::stop, .stop_string = "xy"}, ready_);
  EXPECT_EQ(ready(), "");
}

/// A character that spells U+FFFD is one, and not broken.
TEST_F(Gate, TheReplacementCharacterItself) {
  for (const char c : {'\xEF', '\xBF', '\xBD', 'x'}) push(c, 1000);
  ASSERT_EQ(ready_.size(), 4U);
  EXPECT_EQ(ready_[2].offset, 10U);
  EXPECT_EQ(ready_[3].offset, 11U);
}

}  // namespace
}  // namespace inferno::test
