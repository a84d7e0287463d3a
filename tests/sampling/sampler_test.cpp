#include "sampling/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <set>

namespace inferno {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kQwenVocab = 151936;

using Logits = std::vector<float>;

// What can be drawn at all, found by drawing at many positions.
std::set<std::int32_t> drawable(const Logits& logits, const SamplingSettings& settings,
                                const TokenHistory& history = {}, std::uint32_t draws = 2000) {
  std::set<std::int32_t> ids;
  for (std::uint32_t position = 0; position < draws; ++position) {
    const Choice choice = choose(logits, settings, history, position);
    EXPECT_EQ(choice.error, "");
    ids.insert(choice.id);
  }
  return ids;
}

std::int32_t chosen(const Logits& logits, const SamplingSettings& settings = {},
                    const TokenHistory& history = {}) {
  const Choice choice = choose(logits, settings, history, 0);
  EXPECT_EQ(choice.error, "");
  return choice.id;
}

SamplingSettings at_temperature(float temperature) {
  SamplingSettings settings;
  settings.temperature = temperature;
  return settings;
}

// --- Equal logits: the lowest id wins by every way that promises the best one ---

// Runs a check through argmax, greedy, greedy by a tiny temperature, penalties, top-k 1, top-p 0 and min-p 1.
void expect_winner(const Logits& logits, std::int32_t winner) {
  EXPECT_EQ(argmax(logits).id, winner);
  EXPECT_EQ(chosen(logits), winner);
  EXPECT_EQ(chosen(logits, at_temperature(1e-4F)), winner);
  EXPECT_EQ(chosen(logits, at_temperature(1e-9F)), winner);
  SamplingSettings penalized;
  penalized.repetition_penalty = 1.5F;
  penalized.presence_penalty = 0.5F;
  penalized.frequency_penalty = 0.25F;
  penalized.logit_bias = {{static_cast<std::int32_t>(logits.size()) - 2, -5.0F}};
  TokenHistory history(logits.size());
  history.add_generated(static_cast<std::int32_t>(logits.size()) - 2);
  EXPECT_EQ(chosen(logits, penalized, history), winner);
  penalized.temperature = 1e-4F;
  EXPECT_EQ(chosen(logits, penalized, history), winner);
  SamplingSettings narrow = at_temperature(1.0F);
  narrow.top_k = 1;
  EXPECT_EQ(chosen(logits, narrow), winner);
  narrow.top_k = 0;
  narrow.top_p = 0.0F;
  EXPECT_EQ(chosen(logits, narrow), winner);
}

TEST(Ties, LowestIdWins) {
  for (const std::size_t vocab : {std::size_t{300}, kQwenVocab}) {
    Logits flat(vocab, 0.0F);
    expect_winner(flat, 0);
    Logits logits(vocab, -3.0F);
    logits[5] = logits[256] = 7.5F;
    expect_winner(logits, 5);
    logits.assign(vocab, -3.0F);
    logits[0] = logits[vocab - 1] = 7.5F;
    expect_winner(logits, 0);
    logits.assign(vocab, -3.0F);
    logits[vocab - 1] = 7.5F;
    expect_winner(logits, static_cast<std::int32_t>(vocab) - 1);
  }
}

TEST(Ties, MinusZeroEqualsZero) {
  expect_winner({-1.0F, -0.0F, 0.0F, -0.0F, -1.0F, -1.0F}, 1);
  expect_winner({-1.0F, 0.0F, -0.0F, -1.0F, -1.0F}, 1);
}

TEST(Ties, AllMinusInfinityButOne) {
  for (const std::size_t index : {std::size_t{0}, std::size_t{5}, std::size_t{256}, kQwenVocab - 1}) {
    Logits logits(kQwenVocab, -kInfinity);
    logits[index] = -1e30F;
    expect_winner(logits, static_cast<std::int32_t>(index));
    EXPECT_EQ(chosen(logits, at_temperature(1.0F)), static_cast<std::int32_t>(index));
    EXPECT_EQ(chosen(logits, at_temperature(1e9F)), static_cast<std::int32_t>(index));
  }
}

TEST(Ties, PlusInfinityBeatsTheRest) {
  Logits logits(300, 3e38F);
  logits[7] = logits[9] = kInfinity;
  expect_winner(logits, 7);
  for (const float temperature : {0.5F, 1.0F, 1e9F}) {
    EXPECT_THAT(drawable(logits, at_temperature(temperature)), testing::ElementsAre(7, 9));
  }
}

TEST(Ties, SubnormalsAreOrdered) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(argmax(Logits{0.0F, -tiny, tiny, 0.0F}).id, 2);
  EXPECT_EQ(argmax(Logits{-tiny, -0.0F, -tiny}).id, 1);
}

// --- What cannot be chosen from ---

void expect_nan_refused(float nan, std::size_t index) {
  Logits logits(kQwenVocab, 1.0F);
  logits[index] = nan;
  const std::string message = "logit " + std::to_string(index) + " is NaN";
  EXPECT_EQ(argmax(logits).error, message);
  EXPECT_EQ(argmax(logits).id, -1);
  for (const float temperature : {0.0F, 1e-4F, 1.0F}) {
    SamplingSettings settings = at_temperature(temperature);
    EXPECT_EQ(choose(logits, settings, {}, 0).error, message);
    settings.top_k = 3;
    settings.logit_bias = {{static_cast<std::int32_t>(index), -100.0F}};
    EXPECT_EQ(choose(logits, settings, {}, 0).error, message) << "a ban does not hide it";
  }
}

TEST(Refusal, ANanIsNamedWhereverItStands) {
  for (const std::size_t index : {std::size_t{0}, std::size_t{17}, std::size_t{151935}}) {
    expect_nan_refused(kNan, index);
    expect_nan_refused(-kNan, index);
  }
}

TEST(Refusal, NothingLeft) {
  const Logits none(40, -kInfinity);
  EXPECT_NE(argmax(none).error, "");
  EXPECT_NE(argmax(Logits{}).error, "");
  EXPECT_NE(choose(Logits{}, {}, {}, 0).error, "");
  SamplingSettings everything;
  for (std::int32_t id = 0; id < 40; ++id) everything.logit_bias.emplace_back(id, -100.0F);
  const std::vector<std::uint32_t> nothing_allowed(2, 0);
  for (const float temperature : {0.0F, 1.0F}) {
    const SamplingSettings plain = at_temperature(temperature);
    everything.temperature = temperature;
    EXPECT_THAT(choose(none, plain, {}, 0).error, testing::HasSubstr("every token is banned"));
    EXPECT_THAT(choose(Logits(40, 1.0F), everything, {}, 0).error,
                testing::HasSubstr("every token is banned"));
    EXPECT_THAT(choose(Logits(40, 1.0F), plain, {}, 0, nothing_allowed).error,
                testing::HasSubstr("every token is banned"));
  }
}

TEST(Refusal, MismatchedSizes) {
  const Logits logits(40, 1.0F);
  EXPECT_NE(choose(logits, {}, TokenHistory(41), 0).error, "");
  const std::vector<std::uint32_t> one_word(1, ~0U);
  EXPECT_NE(choose(logits, {}, {}, 0, one_word).error, "");
}

// --- The order of the filters, and that something always survives ---

TEST(Order, TemperatureComesBeforeTopP) {
  SamplingSettings settings = at_temperature(0.5F);
  settings.top_p = 0.8F;
  EXPECT_THAT(drawable({3, 2, 1}, settings), testing::ElementsAre(0));
  settings.temperature = 1.0F;  // 0.665, 0.245, 0.090
  EXPECT_THAT(drawable({3, 2, 1}, settings), testing::ElementsAre(0, 1));
}

TEST(Order, TopPCountsWhatTopKKept) {
  SamplingSettings settings = at_temperature(1.0F);
  settings.top_p = 0.7F;
  EXPECT_THAT(drawable({3, 2, 1}, settings), testing::ElementsAre(0, 1));
  settings.top_k = 2;  // 0.731, 0.269
  EXPECT_THAT(drawable({3, 2, 1}, settings), testing::ElementsAre(0));
}

TEST(Order, PenaltiesComeBeforeTheFilters) {
  SamplingSettings settings = at_temperature(1.0F);
  settings.top_k = 1;
  settings.logit_bias = {{2, 5.0F}};
  EXPECT_THAT(drawable({3, 2, 1}, settings), testing::ElementsAre(2));
  settings.logit_bias.clear();
  settings.presence_penalty = 1.5F;
  TokenHistory history(3);
  history.add_generated(0);
  EXPECT_THAT(drawable({3, 2, 1}, settings, history), testing::ElementsAre(1));
}

TEST(Order, BiasComesBeforeTheRepetitionPenalty) {
  Logits logits = {-1.0F, 0.0F};
  SamplingSettings settings;
  settings.logit_bias = {{0, 3.0F}};
  settings.repetition_penalty = 2.0F;
  TokenHistory history(2);
  history.add_prompt(std::vector<std::int32_t>{0});
  adjust_logits(logits, settings, history);
  EXPECT_EQ(logits[0], 1.0F);  // (-1 + 3) / 2; the other way round it would be -1 * 2 + 3
}

TEST(Filters, MinP) {
  SamplingSettings settings = at_temperature(1.0F);
  settings.min_p = 0.3F;  // relative to the best: 1, 0.368, 0.135
  EXPECT_THAT(drawable({3, 2, 1}, settings), testing::ElementsAre(0, 1));
  settings.min_p = 0.5F;
  EXPECT_THAT(drawable({3, 2, 1}, settings), testing::ElementsAre(0));
  settings.min_p = 0.1F;
  EXPECT_THAT(drawable({3, 2, 1}, settings), testing::ElementsAre(0, 1, 2));
  settings.min_p = 1.0F;
  EXPECT_THAT(drawable({3, 2, 3}, settings), testing::ElementsAre(0, 2));
}

TEST(Filters, TopKKeepsTheLowerIdsOfATie) {
  SamplingSettings settings = at_temperature(1.0F);
  settings.top_k = 3;
  EXPECT_THAT(drawable({1, 0, 2, 1, 1, 0}, settings), testing::ElementsAre(0, 2, 3));
  settings.top_k = 1;
  EXPECT_THAT(drawable({1, 2, 2}, settings), testing::ElementsAre(1));
}

TEST(Filters, TopPKeepsTheLowerIdsOfATie) {
  SamplingSettings settings = at_temperature(1.0F);
  settings.top_p = 0.5F;
  EXPECT_THAT(drawable({0, 0, 0, 0}, settings), testing::ElementsAre(0, 1));
  settings.top_p = 0.51F;
  EXPECT_THAT(drawable({0, 0, 0, 0}, settings), testing::ElementsAre(0, 1, 2));
}

TEST(Filters, ExtremesKeepAtLeastOneAndAtMostAll) {
  const Logits logits = {3, 2, 1};
  for (const float temperature : {1e-9F, 1e-3F, 1.0F, 1e9F, std::numeric_limits<float>::max()}) {
    for (const std::int32_t top_k : {0, 1, 1000000000}) {
      for (const float top_p : {0.0F, 1.0F}) {
        for (const float min_p : {0.0F, 1.0F}) {
          SamplingSettings settings = at_temperature(temperature);
          settings.top_k = top_k;
          settings.top_p = top_p;
          settings.min_p = min_p;
          const auto ids = drawable(logits, settings, {}, 200);
          const bool single =
              temperature <= 1e-3F || top_k == 1 || top_p == 0.0F || (min_p == 1.0F && temperature < 1e9F);
          const std::set<std::int32_t> expected = single ? std::set{0} : std::set{0, 1, 2};
          EXPECT_EQ(ids, expected) << temperature << " " << top_k << " " << top_p << " " << min_p;
        }
      }
    }
  }
}

TEST(Filters, TopKOneIsGreedyEvenWhereAllWeighTheSame) {
  SamplingSettings settings = at_temperature(1e9F);
  settings.top_k = 1;
  EXPECT_THAT(drawable({1, 2, 3, 2}, settings), testing::ElementsAre(2));
}

TEST(Filters, TemperatureZeroIsGreedyWhateverElseIsSet) {
  SamplingSettings settings;
  settings.top_k = 2;
  settings.top_p = 0.9F;
  settings.min_p = 0.1F;
  settings.seed = 77;
  EXPECT_THAT(drawable({1, 2, 3, 2.9F}, settings), testing::ElementsAre(2));
}

TEST(Filters, AllowedBitsBindEveryPath) {
  Logits logits(70, 0.0F);
  logits[3] = 50.0F;
  std::vector<std::uint32_t> allowed(3, 0);
  allowed[1] = 1U << 8;  // 40
  allowed[2] = 1U << 5;  // 69
  std::set<std::int32_t> ids;
  for (std::uint32_t position = 0; position < 100; ++position) {
    ids.insert(choose(logits, at_temperature(1.0F), {}, position, allowed).id);
  }
  EXPECT_THAT(ids, testing::ElementsAre(40, 69));
  EXPECT_EQ(choose(logits, {}, {}, 0, allowed).id, 40);
}

// --- Penalties and bias ---

TEST(Penalties, CountAsDocumented) {
  TokenHistory history(3);
  history.add_prompt(std::vector<std::int32_t>{0, 0, 0});
  for (int i = 0; i < 3; ++i) history.add_generated(1);

  SamplingSettings settings;
  settings.presence_penalty = 0.5F;
  settings.frequency_penalty = 0.25F;
  Logits logits = {2, -2, 0};
  adjust_logits(logits, settings, history);
  EXPECT_THAT(logits, testing::ElementsAre(2.0F, -2.0F - 0.5F - 3 * 0.25F, 0.0F));

  settings = {};
  settings.repetition_penalty = 1.25F;
  logits = {2, -2, 0};
  adjust_logits(logits, settings, history);
  EXPECT_THAT(logits, testing::ElementsAre(1.6F, -2.5F, 0.0F));

  settings.presence_penalty = 0.5F;
  settings.frequency_penalty = 0.25F;
  logits = {2, -2, 0};
  adjust_logits(logits, settings, history);
  EXPECT_THAT(logits, testing::ElementsAre(1.6F, -3.75F, 0.0F));
}

TEST(Penalties, RepetitionActsOncePerDistinctId) {
  TokenHistory history(2);
  history.add_prompt(std::vector<std::int32_t>{1, 1});
  history.add_generated(1);
  history.add_generated(1);
  SamplingSettings settings;
  settings.repetition_penalty = 2.0F;
  Logits logits = {1, 8};
  adjust_logits(logits, settings, history);
  EXPECT_THAT(logits, testing::ElementsAre(1.0F, 4.0F));
}

TEST(Penalties, ReciprocalIsWithinOneRoundingOfDivision) {
  TokenHistory history(1);
  history.add_generated(0);
  for (int step = 0; step < 150; ++step) {
    const float penalty = 0.5F + 0.013F * static_cast<float>(step);
    SamplingSettings settings;
    settings.repetition_penalty = penalty;
    Logits logits = {12.7F};
    adjust_logits(logits, settings, history);
    EXPECT_NEAR(logits[0], 12.7 / static_cast<double>(penalty), 12.7 / penalty * 1.2e-7);
  }
}

TEST(Penalties, ChangeTheGreedyChoice) {
  TokenHistory history(3);
  history.add_generated(0);
  SamplingSettings settings;
  settings.frequency_penalty = 2.0F;
  EXPECT_EQ(chosen({3, 2, 1}, settings, history), 1);
  settings.frequency_penalty = -2.0F;
  EXPECT_EQ(chosen({3, 4, 1}, settings, history), 0);
}

TEST(Bias, MinusHundredBansAtAnyTemperature) {
  SamplingSettings settings;
  settings.logit_bias = {{0, -100.0F}};
  for (const float temperature : {0.0F, 1e-4F, 1.0F, 100.0F, 1e9F}) {
    settings.temperature = temperature;
    EXPECT_EQ(drawable({500.0F, 2, 1}, settings).count(0), 0U) << temperature;
  }
  settings.temperature = 0.0F;
  EXPECT_EQ(chosen({500.0F, 2, 1}, settings), 1) << "the next best wins";
  EXPECT_EQ(chosen({kInfinity, 2, 1}, settings), 1);
}

TEST(Bias, HundredForcesAndEntriesAddUp) {
  SamplingSettings settings = at_temperature(1.0F);
  settings.logit_bias = {{1, 100.0F}};
  EXPECT_THAT(drawable({20, -10, 5}, settings), testing::ElementsAre(1));
  settings.temperature = 0.0F;
  settings.logit_bias = {{1, 2.0F}, {1, 2.0F}};
  EXPECT_EQ(chosen({3, 0, 1}, settings), 1);
  settings.logit_bias = {{1, -100.0F}, {1, 100.0F}};
  EXPECT_EQ(chosen({3, 4, 1}, settings), 0) << "a ban is final";
}

TEST(Bias, EveryIdButOneBannedAtFullVocabulary) {
  SamplingSettings settings;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kQwenVocab); ++id) {
    if (id != 77777) settings.logit_bias.emplace_back(id, -100.0F);
  }
  const Logits logits(kQwenVocab, 1.0F);
  EXPECT_EQ(chosen(logits, settings), 77777);
  settings.temperature = 1.0F;
  EXPECT_EQ(chosen(logits, settings), 77777);
}

TEST(Bias, DoesNotCarryOverToTheNextCall) {
  SamplingSettings settings;
  settings.logit_bias = {{0, -100.0F}};
  const Logits logits = {3, 2, 1};
  EXPECT_EQ(chosen(logits, settings), 1);
  EXPECT_EQ(chosen(logits), 0);
  EXPECT_THAT(logits, testing::ElementsAre(3, 2, 1));
}

}  // namespace
}  // namespace inferno
