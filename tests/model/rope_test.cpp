#include "model/rope.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

#include "support/reference_forward.hpp"

namespace inferno {
namespace {

constexpr std::uint32_t kPositions[] = {0, 1, 255, 256, 4095, 4096, 15962, 32768, 40959, 131071, 1048575};

ModelConfig config_with(RopeScaling scaling = {}) {
  ModelConfig config;
  config.head_dim = 128;
  config.rope_base = 1e6F;
  config.rope_scaling = scaling;
  return config;
}

/// Largest difference from the reference at all positions and pairs.
double largest_error(const ModelConfig& config, const test::ReferenceRope& reference) {
  const Rope rope(config);
  const std::size_t half = config.head_dim / 2;
  EXPECT_EQ(rope.frequencies().size(), half);
  double largest = 0;
  for (const auto position : kPositions) {
    std::vector<float> sine(half);
    std::vector<float> cosine(half);
    rope.fill(position, sine, cosine);
    for (std::size_t i = 0; i < half; ++i) {
      const long double angle = position * reference.frequencies[i];
      largest = std::max(largest, static_cast<double>(std::abs(std::sin(angle) * reference.gain - sine[i])));
      largest =
          std::max(largest, static_cast<double>(std::abs(std::cos(angle) * reference.gain - cosine[i])));
    }
  }
  return largest;
}

TEST(Rope, SinesAndCosinesAreRightAtEveryPosition) {
  EXPECT_LT(largest_error(config_with(), test::reference_rope({})),
            6e-8);  // half a unit in float's last place
}

TEST(Rope, OtherBasesAndWidths) {
  for (const float base : {10000.0F, 500000.0F, 5e6F}) {
    for (const std::uint32_t head_dim : {2U, 32U, 48U, 256U}) {
      ModelConfig config = config_with();
      config.rope_base = base;
      config.head_dim = head_dim;
      const auto reference = test::reference_rope({.head_dim = head_dim, .base = base});
      EXPECT_LT(largest_error(config, reference), 6e-8) << base << ' ' << head_dim;
    }
  }
}

TEST(Rope, PositionZeroTurnsNothing) {
  const Rope rope(config_with());
  std::vector<float> sine(64);
  std::vector<float> cosine(64);
  rope.fill(0, sine, cosine);
  EXPECT_EQ(sine, std::vector<float>(64, 0.0F));
  EXPECT_EQ(cosine, std::vector<float>(64, 1.0F));
}

TEST(Rope, LinearScalingDividesPositions) {
  const auto config = config_with({.type = RopeScaling::Type::linear, .factor = 4.0F});
  EXPECT_LT(largest_error(config, test::reference_rope({.type = "linear", .factor = 4})), 6e-8);
  EXPECT_EQ(Rope(config).attention_factor(), 1.0);
}

TEST(Rope, YarnBlendsFrequenciesAndScalesAttention) {
  for (const std::uint32_t original : {512U, 4096U, 32768U, 131072U}) {
    for (const float factor : {1.0F, 2.0F, 4.0F, 40.0F}) {
      const auto config =
          config_with({.type = RopeScaling::Type::yarn, .factor = factor, .original_context = original});
      const auto reference = test::reference_rope(
          {.type = "yarn", .factor = factor, .original_context = static_cast<long double>(original)});
      EXPECT_LT(largest_error(config, reference), 1.3e-7) << original << ' ' << factor;
      EXPECT_NEAR(Rope(config).attention_factor(), 0.1 * std::log(static_cast<double>(factor)) + 1, 1e-12);
    }
  }
}

/// Numbers worked out by hand from the paper's formulas, so that the code and the reference above cannot
/// share a mistake: head 128, base 1e6, original context 32768. The pair that turns 32 times is 128 ln(32768
/// / 64 pi) / (2 ln 1e6) = 23.6, the one that turns once 39.7: the ramp runs from pair 23 to pair 40.
TEST(Rope, YarnsRampLiesWhereThePaperPutsIt) {
  const Rope plain(config_with());
  const Rope yarn(config_with({.type = RopeScaling::Type::yarn, .factor = 4.0F, .original_context = 32768}));
  const auto ratio = [&](std::size_t i) { return yarn.frequencies()[i] / plain.frequencies()[i]; };
  EXPECT_DOUBLE_EQ(ratio(0), 1.0);
  EXPECT_DOUBLE_EQ(ratio(23), 1.0);
  EXPECT_NEAR(ratio(24), 1.0 - 0.75 / 17, 1e-12);
  EXPECT_NEAR(ratio(31), 1.0 - 0.75 * 8 / 17, 1e-12);
  EXPECT_NEAR(ratio(40), 0.25, 1e-12);
  EXPECT_DOUBLE_EQ(ratio(63), 0.25);
  EXPECT_NEAR(yarn.attention_factor(), 1.1386294361119891, 1e-12);
}

TEST(Rope, ARampWithoutWidthIsAStep) {
  ModelConfig config = config_with(
      {.type = RopeScaling::Type::yarn, .factor = 4.0F, .original_context = 16, .beta_fast = 32.0F});
  const auto reference = test::reference_rope({.type = "yarn", .factor = 4, .original_context = 16});
  EXPECT_LT(largest_error(config, reference), 1.3e-7);
}

TEST(Rope, AnAttentionFactorOfTheFileReplacesYarnsOwn) {
  const Rope rope(config_with({.type = RopeScaling::Type::yarn,
                               .factor = 4.0F,
                               .original_context = 32768,
                               .attention_factor = 1.5F}));
  EXPECT_EQ(rope.attention_factor(), 1.5);
  std::vector<float> sine(64);
  std::vector<float> cosine(64);
  rope.fill(0, sine, cosine);
  EXPECT_EQ(cosine, std::vector<float>(64, 1.5F));
}

}  // namespace
}  // namespace inferno
