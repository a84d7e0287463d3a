#include "engine/sequence.hpp"

#include <gtest/gtest.h>

#include <inferno/model.hpp>

#include "engine/model_parts.hpp"

namespace inferno {
namespace {

const Tokenizer& tokenizer() {
  static const Model model = Model::load(Model::default_path());
  return model.parts().tokenizer;
}

Sequence begun(SequenceEnding ending, SamplingSettings sampling = {}) {
  return {tokenizer(), {300, 301}, std::move(sampling), std::move(ending)};
}

TEST(Sequence, EndsAtMaxTokens) {
  auto sequence = begun({.max_tokens = 2});
  EXPECT_EQ(sequence.most_positions(), 3U);
  EXPECT_EQ(sequence.accept(466), tokenizer().bytes(466));
  EXPECT_FALSE(sequence.finish_reason());
  sequence.accept(470);
  EXPECT_EQ(sequence.finish_reason(), FinishReason::length);
  EXPECT_EQ(sequence.generated(), 2U);
  EXPECT_EQ(sequence.prompt_size(), 2U);
}

TEST(Sequence, EndsAtItsOwnStopIdsEvenWhereEndTokensAreIgnored) {
  auto sequence = begun({.max_tokens = 9, .stop_ids = {470}, .ignore_end_tokens = true});
  sequence.accept(tokenizer().end_tokens().front());
  EXPECT_FALSE(sequence.finish_reason());
  EXPECT_EQ(sequence.accept(470), "");
  EXPECT_EQ(sequence.finish_reason(), FinishReason::stop);
  EXPECT_EQ(sequence.stop_id(), 470);
  EXPECT_EQ(sequence.stop_string(), nullptr);
}

TEST(Sequence, AnEndAtTheLastTokenIsAStop) {
  auto sequence = begun({.max_tokens = 1});
  sequence.accept(tokenizer().end_tokens().front());
  EXPECT_EQ(sequence.finish_reason(), FinishReason::stop);
}

TEST(Sequence, NamesTheStopString) {
  const std::string text(tokenizer().bytes(466));
  auto sequence = begun({.max_tokens = 9, .stop = {"no such text", text.substr(1)}});
  EXPECT_EQ(sequence.accept(466), text.substr(0, 1));
  EXPECT_EQ(sequence.finish_reason(), FinishReason::stop);
  ASSERT_NE(sequence.stop_string(), nullptr);
  EXPECT_EQ(*sequence.stop_string(), text.substr(1));
  EXPECT_EQ(sequence.flush(), "");
}

TEST(Sequence, WhatIsHeldBackComesAtTheEnd) {
  const std::string text(tokenizer().bytes(466));
  auto sequence = begun({.max_tokens = 1, .stop = {text + "and more"}});
  EXPECT_EQ(sequence.accept(466), "");
  EXPECT_EQ(sequence.flush(), text);
}

TEST(Sequence, AsksForASlotOnlyWhereGreedyIsNotEnough) {
  EXPECT_FALSE(begun({.max_tokens = 1}).needs_slot());
  SamplingSettings drawn;
  drawn.temperature = 1;
  EXPECT_TRUE(begun({.max_tokens = 1}, drawn).needs_slot());
  SamplingSettings biased;
  biased.logit_bias = {{3, 1.0F}};
  EXPECT_TRUE(begun({.max_tokens = 1}, biased).needs_slot());
  EXPECT_TRUE(begun({.max_tokens = 1}, biased).slot_state().prompt.empty());
  SamplingSettings penalized;
  penalized.presence_penalty = 1;
  auto sequence = begun({.max_tokens = 5}, penalized);
  sequence.accept(466);
  EXPECT_EQ(sequence.slot_state().prompt, (std::vector<TokenId>{300, 301}));
  EXPECT_EQ(sequence.slot_state().generated, (std::vector<TokenId>{466}));
}

}  // namespace
}  // namespace inferno
