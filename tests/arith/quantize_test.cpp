#include "arith/quantize.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "arith/vectors.hpp"

namespace inferno::arith {
namespace {

TEST(Quantize, TheLargestMagnitudeBecomes127) {
  std::vector<float> x(32, 0.25F);
  x[7] = -3.7F;
  const auto q = quantize_vector(x);
  EXPECT_EQ(q.values[7], -127);
  EXPECT_EQ(q.values[0], std::lround(0.25 * 127 / 3.7));
  EXPECT_NEAR(q.scales[0], 3.7F / 127, 1e-8F);
}

TEST(Quantize, NoMagnitudeLeavesTheLevels) {
  for (float largest = 0x1p-99F; largest < 0x1p119F; largest *= 1.37F) {
    const auto bits = magnitude_bits(largest);
    EXPECT_EQ(quantize(largest, block_inverse(bits, kInt8Levels)), 127) << largest;
    EXPECT_EQ(quantize(-largest, block_inverse(bits, kWeightLevels)), -32767) << largest;
  }
}

TEST(Quantize, TinyBlocksAreZero) {
  std::vector<float> x(32, 0x1p-101F);
  auto q = quantize_vector(x);
  EXPECT_EQ(q.scales[0], 0.0F);
  EXPECT_EQ(q.values, std::vector<std::int8_t>(32, 0));
  x[31] = 0x1p-100F;
  q = quantize_vector(x);
  EXPECT_GT(q.scales[0], 0.0F);
  EXPECT_EQ(q.values[31], 127);
}

TEST(Quantize, ABlockThatIsNotFiniteHasANanForAScale) {
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), 0x1p120F}) {
    std::vector<float> x(64, 1.0F);
    x[40] = bad;
    const auto q = quantize_vector(x);
    EXPECT_FALSE(std::isnan(q.scales[0]));
    EXPECT_TRUE(std::isnan(q.scales[1]));
    EXPECT_EQ(q.values[40], 0);
  }
}

TEST(Quantize, AnUnfinishedBlockIsPaddedWithZeros) {
  const auto q = quantize_vector(std::vector<float>(40, 2.0F));
  ASSERT_EQ(q.values.size(), 64U);
  ASSERT_EQ(q.scales.size(), 2U);
  EXPECT_EQ(q.values[39], 127);
  EXPECT_EQ(q.values[40], 0);
}

TEST(Quantize, ErrorIsAtMostHalfAStep) {
  std::vector<float> x;
  for (int i = 0; i < 320; ++i) x.push_back(std::sin(static_cast<float>(i) * 1.7F) * static_cast<float>(i));
  const auto q = quantize_vector(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(q.values[i] * q.scales[i / 32], x[i], q.scales[i / 32] * 0.5001F) << i;
  }
}

}  // namespace
}  // namespace inferno::arith
