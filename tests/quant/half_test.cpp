#include "quant/half.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

namespace inferno::quant {
namespace {

constexpr std::uint32_t kHalves = 65536;

// What IEEE 754 says about a half's fields, in double precision, where everything is exact.
double half_by_definition(std::uint32_t half) {
  const double sign = (half & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(half >> 10U & 31U);
  const double mantissa = half & 1023U;
  if (exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024.0 + mantissa, exponent - 25);
}

// Nearest half to a float, ties to even: nearbyint on the grid of the value's binade.
double nearest_half(float value) {
  const double magnitude = std::fabs(static_cast<double>(value));
  const int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(magnitude, 10 - exponent)), exponent - 10);
  return std::copysign(rounded >= 65536.0 ? std::numeric_limits<double>::infinity() : rounded, value);
}

TEST(Half, EveryHalfDecodesExactly) {
  for (std::uint32_t half = 0; half < kHalves; ++half) {
    const float decoded = half_to_float(static_cast<std::uint16_t>(half));
    const double expected = half_by_definition(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(decoded)) << half;
    } else {
      ASSERT_EQ(static_cast<double>(decoded), expected) << half;
    }
    ASSERT_EQ(std::signbit(decoded), (half & 0x8000U) != 0) << half;
  }
}

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (std::uint32_t half = 0; half < kHalves; ++half) {
    const std::uint16_t again = float_to_half(half_to_float(static_cast<std::uint16_t>(half)));
    const bool nan = (half & 0x7FFFU) > 0x7C00U;
    ASSERT_EQ(again, nan ? (half & 0x8000U) | 0x7E00U : half) << half;
  }
}

TEST(Half, RoundsToNearestEven) {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32U); bits += 1499) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(static_cast<double>(half_to_float(float_to_half(value))), nearest_half(value)) << value;
  }
}

TEST(Half, RoundsAroundEveryMidpoint) {
  for (std::uint32_t half = 0; half < 0x7C00U; ++half) {
    const double next = half == 0x7BFFU ? 65536.0 : half_by_definition(half + 1);
    const auto midpoint = static_cast<float>((half_by_definition(half) + next) / 2);
    const std::uint32_t even = half + (half & 1U);
    ASSERT_EQ(float_to_half(midpoint), even) << half;
    ASSERT_EQ(float_to_half(std::nextafter(midpoint, 0.0F)), half);
    ASSERT_EQ(float_to_half(std::nextafter(midpoint, 1e9F)), half + 1);
    ASSERT_EQ(float_to_half(-midpoint), 0x8000U | even);
  }
}

TEST(Half, Extremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_to_half(65504.0F), 0x7BFFU);
  EXPECT_EQ(float_to_half(65519.996F), 0x7BFFU);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00U);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7C00U);
  EXPECT_EQ(float_to_half(kInfinity), 0x7C00U);
  EXPECT_EQ(float_to_half(-kInfinity), 0xFC00U);
  EXPECT_EQ(float_to_half(-0.0F), 0x8000U);
  EXPECT_EQ(float_to_half(0x1p-24F), 1U);
  EXPECT_EQ(float_to_half(0x1p-25F), 0U);
  EXPECT_EQ(float_to_half(std::nextafter(0x1p-25F, 1.0F)), 1U);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0U);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::quiet_NaN()), 0x7E00U);
  EXPECT_EQ(float_to_half(std::bit_cast<float>(0x7F800001U)), 0x7E00U);
}

TEST(BFloat16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t value = 0; value < kHalves; ++value) {
    const float decoded = bfloat16_to_float(static_cast<std::uint16_t>(value));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(decoded), value << 16U);
    const bool nan = (value & 0x7FFFU) > 0x7F80U;
    ASSERT_EQ(float_to_bfloat16(decoded), nan ? value | 0x40U : value) << value;
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F808000U)), 0x3F80U);  // a tie, down to even
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F818000U)), 0x3F82U);  // a tie, up to even
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F808001U)), 0x3F81U);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F807FFFU)), 0x3F80U);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7F80U);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x00008001U)), 1U);  // subnormals are kept
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x7F800001U)), 0x7FC0U);
}

}  // namespace
}  // namespace inferno::quant
