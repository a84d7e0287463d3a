#include <array>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <thread>

#include "sampling/reference.hpp"
#include "sampling/sampler.hpp"

namespace inferno {
namespace {

using Logits = std::vector<float>;

std::vector<std::int32_t> draws(const Logits& logits, const SamplingSettings& settings, std::uint32_t count) {
  std::vector<std::int32_t> ids;
  for (std::uint32_t position = 0; position < count; ++position) {
    const Choice choice = choose(logits, settings, {}, position);
    EXPECT_EQ(choice.error, "");
    ids.push_back(choice.id);
  }
  return ids;
}

// A spread of logits like a model's, the same on every platform.
Logits model_like(std::size_t vocab, std::uint32_t salt) {
  std::mt19937 bits(salt);
  Logits logits(vocab);
  for (float& logit : logits) {
    std::uint32_t sum = 0;
    for (int i = 0; i < 4; ++i) sum += static_cast<std::uint32_t>(bits() >> 8);
    logit = static_cast<float>(sum) * 0x1p-24F * 8.0F - 16.0F;
  }
  return logits;
}

// On the flat model a sampled sequence is a pure trace of the generator: floor(V r / 2^64) with r from
// Philox. These ids were computed from the definition in exact integers by another program.
TEST(Draw, FlatModelTracesTheGenerator) {
  const Logits flat(151936, 0.0F);
  SamplingSettings settings;
  settings.temperature = 1.0F;
  settings.seed = 7;
  EXPECT_THAT(draws(flat, settings, 8),
              testing::ElementsAre(113975, 120832, 1284, 38003, 150354, 51086, 71106, 71758));
  settings.seed = 0;
  EXPECT_THAT(draws(flat, settings, 8),
              testing::ElementsAre(133782, 55014, 48535, 63069, 105392, 4216, 122670, 6464));
  settings.seed = std::uint64_t{1} << 32;
  EXPECT_THAT(draws(flat, settings, 8),
              testing::ElementsAre(148667, 58772, 38510, 66676, 93406, 130541, 151338, 79646));
  settings.seed = (std::uint64_t{1} << 63) - 1;
  EXPECT_THAT(draws(flat, settings, 8),
              testing::ElementsAre(87791, 117059, 95784, 144690, 94816, 91780, 147131, 91568));
}

TEST(Draw, SlopeTracesTheDefinition) {
  Logits slope(1000);
  for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = static_cast<float>(i * 37 % 1000) / 64.0F;
  SamplingSettings settings;
  settings.temperature = 0.75F;
  settings.seed = 12345678901234567890ULL;
  EXPECT_THAT(draws(slope, settings, 10),
              testing::ElementsAre(108, 81, 243, 432, 593, 243, 268, 377, 432, 539));
  settings.top_k = 40;
  settings.top_p = 0.95F;
  settings.min_p = 0.05F;
  EXPECT_THAT(draws(slope, settings, 10),
              testing::ElementsAre(108, 81, 243, 432, 594, 243, 270, 378, 432, 540));
}

TEST(Draw, SameSeedSameSequenceOtherSeedsOthers) {
  const Logits flat(151936, 0.0F);
  SamplingSettings settings;
  settings.temperature = 1.0F;
  std::vector<std::vector<std::int32_t>> all;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7},
                                   std::uint64_t{1} << 32, (std::uint64_t{1} << 63) - 1, ~std::uint64_t{0}}) {
    settings.seed = seed;
    const auto once = draws(flat, settings, 8);
    EXPECT_EQ(once, draws(flat, settings, 8));
    EXPECT_NE(std::set(once.begin(), once.end()).size(), 1U) << "positions give different draws";
    for (const auto& other : all) EXPECT_NE(once, other);
    all.push_back(once);
  }
}

TEST(Draw, APositionDoesNotDependOnWhatWasDrawnBefore) {
  const Logits logits = model_like(5000, 3);
  SamplingSettings settings;
  settings.temperature = 1.0F;
  settings.seed = 99;
  const auto whole = draws(logits, settings, 20);
  for (std::uint32_t position = 20; position-- > 0;) {
    EXPECT_EQ(choose(logits, settings, {}, position).id, whole[position]);
  }
  std::int32_t from_thread = -1;
  std::thread([&] { from_thread = choose(logits, settings, {}, 13).id; }).join();
  EXPECT_EQ(from_thread, whole[13]);
  EXPECT_EQ(choose(logits, settings, {}, 0xFFFFFFFFU).error, "");
}

TEST(Draw, EqualsTheReferenceInEveryCombination) {
  std::mt19937 bits(5);
  const auto pick = [&](auto... options) {
    const std::array all = {options...};
    return all[bits() % all.size()];
  };
  for (int round = 0; round < 3000; ++round) {
    const std::size_t vocab = pick(1U, 2U, 3U, 17U, 100U, 1000U, 4097U);
    Logits logits = model_like(vocab, static_cast<std::uint32_t>(round));
    if (bits() % 3 == 0) {  // many ties
      for (float& logit : logits) logit = std::floor(logit);
    }
    if (bits() % 4 == 0) {
      for (float& logit : logits) {
        if (bits() % 3 == 0)
          logit = pick(-0.0F, 0.0F, -std::numeric_limits<float>::infinity(), 15.0F, 1e-40F);
      }
      logits[bits() % vocab] = 1.0F;
    }
    TokenHistory history(vocab);
    for (int i = 0; i < 8; ++i) {
      const auto id = static_cast<std::int32_t>(bits() % vocab);
      if (bits() % 2 == 0) history.add_generated(id);
      if (bits() % 2 == 0) history.add_prompt(std::vector{id});
    }
    SamplingSettings settings;
    settings.temperature = pick(0.0F, 1e-4F, 0.01F, 0.6F, 1.0F, 2.0F, 1e9F);
    settings.top_k = pick(0, 1, 2, 20, 1000000000);
    settings.top_p = pick(0.0F, 0.001F, 0.5F, 0.9F, 0.95F, 0.9999F, 1.0F);
    settings.min_p = pick(0.0F, 0.02F, 0.3F, 1.0F);
    settings.repetition_penalty = pick(1.0F, 1.1F, 1.25F, 0.8F);
    settings.presence_penalty = pick(0.0F, 1.5F, -0.5F);
    settings.frequency_penalty = pick(0.0F, 0.2F);
    settings.seed = std::uint64_t{bits()} << 32 | bits();
    if (bits() % 2 == 0 && vocab > 3) settings.logit_bias = {{1, -100.0F}, {2, 3.0F}, {2, 0.5F}};
    const auto position = static_cast<std::uint32_t>(bits());
    const Choice choice = choose(logits, settings, history, position);
    ASSERT_EQ(choice.error, "");
    ASSERT_EQ(choice.id, test::reference_choice(logits, settings, history, position)) << round;
  }
}

TEST(Draw, TopKAtFullVocabularyEqualsTheReferenceInAnyArrangement) {
  const std::size_t vocab = 151936;
  Logits rising(vocab);
  Logits falling(vocab);
  Logits stairs(vocab);
  for (std::size_t i = 0; i < vocab; ++i) {
    rising[i] = static_cast<float>(i) * 1e-3F;
    falling[i] = -rising[i];
    stairs[i] = static_cast<float>(i / 5000 % 7);
  }
  SamplingSettings settings;
  settings.temperature = 1.0F;
  for (const Logits& logits : {rising, falling, stairs, Logits(vocab, 0.0F), model_like(vocab, 1)}) {
    for (const std::int32_t k : {1, 20, 1500, 70000, 151935, 151936}) {
      settings.top_k = k;
      EXPECT_EQ(choose(logits, settings, {}, 5).id, test::reference_choice(logits, settings, {}, 5));
    }
  }
}

// Pearson's statistic over ids with an expected count of at least 5, the rest as one class.
void expect_distribution(const Logits& logits, const SamplingSettings& settings, std::uint32_t count) {
  std::vector<double> probability;
  double sum = 0;
  for (const float logit : logits) {
    probability.push_back(std::exp(static_cast<double>(logit) / static_cast<double>(settings.temperature)));
    sum += probability.back();
  }
  std::vector<double> seen(logits.size(), 0.0);
  for (const std::int32_t id : draws(logits, settings, count)) seen[static_cast<std::size_t>(id)] += 1.0;
  double statistic = 0;
  double classes = 0;
  double rare_expected = 0;
  double rare_seen = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double expected = probability[i] / sum * count;
    if (expected < 5) {
      rare_expected += expected;
      rare_seen += seen[i];
      continue;
    }
    statistic += (seen[i] - expected) * (seen[i] - expected) / expected;
    classes += 1;
  }
  if (rare_expected > 1) {
    statistic += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
    classes += 1;
  }
  const double freedom = classes - 1;
  ASSERT_GE(freedom, 1);
  // Mean `freedom`, deviation sqrt(2 freedom): four deviations, plus one for the skew of few classes.
  EXPECT_LT(statistic, freedom + 5 * std::sqrt(2 * freedom));
}

TEST(Draw, FollowsTheExactSoftmax) {
  SamplingSettings settings;
  for (const std::uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    settings.seed = seed;
    for (const float temperature : {0.5F, 1.0F, 2.0F}) {
      settings.temperature = temperature;
      expect_distribution({3, 2, 1}, settings, 20000);
      expect_distribution(model_like(200, 8), settings, 50000);
    }
    settings.temperature = 1.0F;
    expect_distribution(Logits(64, 0.25F), settings, 50000);
  }
}

}  // namespace
}  // namespace inferno
