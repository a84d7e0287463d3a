#include "arith/vectors.hpp"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

namespace inferno::arith {
namespace {

TEST(StridedSum, AddsPartialSumsThenATree) {
  // 2^24 swallows a 1 that is added to it, so the order shows: elements 0 and 32 share a partial sum, 1 and
  // 17 meet in the tree.
  std::vector<float> x(64, 0.0F);
  x[0] = 0x1p24F;
  x[32] = 1.0F;
  EXPECT_EQ(strided_sum(x), 0x1p24F);
  x[32] = 0.0F;
  x[1] = 1.0F;
  x[17] = 1.0F;
  EXPECT_EQ(strided_sum(x), 0x1p24F + 2.0F) << "1 and 17 add up to 2 before they meet 2^24";
}

TEST(StridedSum, TakesAnyLength) {
  for (std::size_t n : {0U, 1U, 31U, 33U, 100U}) {
    std::vector<float> x(n);
    std::iota(x.begin(), x.end(), 1.0F);
    EXPECT_EQ(strided_sum(x), static_cast<float>(n * (n + 1) / 2));
  }
}

TEST(QuantizedDot, AddsBlocksWithinSegmentsThenSegments) {
  // One block of the second segment is large, a small one stands in the first: added in one run the small
  // ones would vanish one by one, but the first segment's eight add up to 8 before the second is added.
  const std::size_t blocks = 16;
  std::vector<std::int8_t> weights(blocks * 32, 0);
  std::vector<float> scales(blocks, 1.0F);
  QuantizedVector x{std::vector<std::int8_t>(blocks * 32, 0), std::vector<float>(blocks, 1.0F)};
  for (std::size_t block = 0; block < blocks; ++block) {
    weights[block * 32] = 1;
    x.values[block * 32] = 1;
  }
  x.scales[0] = 0x1p24F;
  EXPECT_EQ(quantized_dot(weights, scales, x), 0x1p24F + 8.0F)
      << "seven ones vanish in segment 0, eight arrive from segment 1";
}

TEST(QuantizedDot, IsExactWithinABlock) {
  std::vector<std::int8_t> weights(32, -128);
  QuantizedVector x{std::vector<std::int8_t>(32, 127), {0.5F}};
  const std::vector<float> scales = {0.25F};
  EXPECT_EQ(quantized_dot(weights, scales, x), -128.0F * 127 * 32 / 8);
}

TEST(FloatDot, UsesSixteenPartialSumsPerSegment) {
  std::vector<float> weights(512, 0.0F);
  const std::vector<float> x(512, 1.0F);
  weights[0] = 0x1p24F;
  weights[16] = 1.0F;  // the same partial sum: swallowed
  EXPECT_EQ(float_dot(weights, x), 0x1p24F);
  weights[16] = 0.0F;
  weights[1] = 1.0F;
  weights[9] = 1.0F;  // meet in the tree first
  EXPECT_EQ(float_dot(weights, x), 0x1p24F + 2.0F);
  weights[1] = weights[9] = 0.0F;
  weights[256] = 1.0F;
  weights[257] = 1.0F;  // a segment of its own
  EXPECT_EQ(float_dot(weights, x), 0x1p24F + 2.0F);
}

TEST(InverseRms, IsCloseToItsDefinition) {
  std::vector<float> x(1000);
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::cos(static_cast<float>(i)) * 3.0F;
    squares += static_cast<double>(x[i]) * x[i];
  }
  EXPECT_NEAR(inverse_rms(x, 1.0F / 1000.0F, 1e-6F), 1.0 / std::sqrt(squares / 1000 + 1e-6), 1e-6);
}

TEST(Rotate, TurnsHalvesNotNeighbours) {
  std::vector<float> head = {1.0F, 2.0F, 3.0F, 4.0F};
  const std::vector<float> sine = {1.0F, 0.0F};
  const std::vector<float> cosine = {0.0F, 1.0F};
  arith::rotate(head, sine, cosine);  // not std::rotate
  EXPECT_EQ(head, (std::vector<float>{-3.0F, 2.0F, 1.0F, 4.0F}));
}

}  // namespace
}  // namespace inferno::arith
