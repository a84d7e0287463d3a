#include "arith/elementary.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>

namespace inferno::arith {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Floats spread evenly over the bits from `low` to `high`.
template <typename Visit>
void for_floats(float low, float high, int count, const Visit& visit) {
  const auto first = std::bit_cast<std::uint32_t>(low);
  const auto last = std::bit_cast<std::uint32_t>(high);
  for (int i = 0; i <= count; ++i) {
    visit(std::bit_cast<float>(static_cast<std::uint32_t>(
        first + (std::uint64_t{last} - first) * static_cast<unsigned>(i) / static_cast<unsigned>(count))));
  }
}

/// Error in units of the exact result's last place.
double ulps(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  const double ulp =
      std::nextafter(std::fabs(rounded), std::numeric_limits<float>::infinity()) - std::fabs(rounded);
  return std::fabs(got - exact) / ulp;
}

TEST(Elementary, ReciprocalIsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for_floats(0x1p-120F, 0x1p120F, 1000003,
             [&](float a) { worst = std::max(worst, ulps(reciprocal(a), 1.0 / a)); });
  EXPECT_LE(worst, 2.0);
}

TEST(Elementary, ReciprocalSquareRootIsWithinThreeUnitsInTheLastPlace) {
  double worst = 0;
  for_floats(0x1p-120F, 0x1p120F, 1000003, [&](float a) {
    worst = std::max(worst, ulps(reciprocal_sqrt(a), 1.0 / std::sqrt(static_cast<double>(a))));
  });
  EXPECT_LE(worst, 3.0);
}

TEST(Elementary, ExponentialIsCloseWhereverItIsNotClamped) {
  double worst = 0;
  for (int i = -8700; i <= 8700; ++i) {
    const float x = static_cast<float>(i) / 100.0F;
    worst = std::max(worst, std::fabs(exponential(x) / std::exp(static_cast<double>(x)) - 1.0));
  }
  EXPECT_LE(worst, 1e-5);
  EXPECT_EQ(exponential(0.0F), 1.0F);
}

TEST(Elementary, ExponentialClampsAndKeepsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(exponential(-infinity), exponential(-87.0F));
  EXPECT_EQ(exponential(-1000.0F), exponential(-87.0F));
  EXPECT_EQ(exponential(infinity), exponential(87.0F));
  EXPECT_GE(exponential(-87.0F), std::numeric_limits<float>::min()) << "subnormal: a device could flush it";
  EXPECT_TRUE(std::isfinite(exponential(87.0F)));
  EXPECT_TRUE(std::isnan(exponential(kNan)));
}

TEST(Elementary, RoundsHalfToEven) {
  EXPECT_EQ(round_to_int(0.5F), 0);
  EXPECT_EQ(round_to_int(1.5F), 2);
  EXPECT_EQ(round_to_int(2.5F), 2);
  EXPECT_EQ(round_to_int(-0.5F), 0);
  EXPECT_EQ(round_to_int(-1.5F), -2);
  EXPECT_EQ(round_to_int(-126.6F), -127);
  for (int i = -40000; i <= 40000; ++i) {
    const float x = static_cast<float>(i) / 7.0F;
    ASSERT_EQ(round_to_int(x), static_cast<int>(std::nearbyint(x))) << x;
  }
}

TEST(Elementary, SwigluIsCloseToItsDefinition) {
  for (int i = -300; i <= 300; ++i) {
    const double gate = i / 10.0;
    const double exact = gate / (1.0 + std::exp(-gate)) * 1.5;
    EXPECT_NEAR(swiglu(static_cast<float>(gate), 1.5F), exact, 1e-5 * std::max(1.0, std::fabs(exact)))
        << gate;
  }
  EXPECT_NEAR(swiglu(-1000.0F, 1.0F), 0.0F, 1e-30F);
  EXPECT_NEAR(swiglu(1000.0F, 1.0F), 1000.0F, 1e-3F);
  EXPECT_TRUE(std::isnan(swiglu(kNan, 1.0F)));
}

/// A compiler that contracts a * b + c rounds once where the contract rounds twice. These values tell.
TEST(Elementary, NothingIsContractedIntoAMultiplyAdd) {
  volatile float a = 1.0F + 0x1p-12F;
  volatile float c = -(1.0F + 0x1p-11F);
  EXPECT_EQ(add(multiply(a, a), c), 0.0F) << "a fused multiply-add gives 2^-24";
  EXPECT_EQ(subtract(multiply(a, a), -c), 0.0F);
  const float x = a;
  const float z = c;
  EXPECT_EQ(x * x + z, 0.0F) << "the flags allow contraction";
}

/// What the sequences give today is what every processor must give: a change of one bit is a change of the
/// contract.
TEST(Elementary, BitsAreFixed) {
  std::uint64_t hash = 1469598103934665603U;
  const auto mix = [&](float value) { hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211U; };
  for_floats(0x1p-60F, 0x1p60F, 4096, [&](float a) {
    mix(reciprocal(a));
    mix(reciprocal_sqrt(a));
  });
  for (int i = -2000; i <= 2000; ++i) {
    mix(exponential(static_cast<float>(i) * 0.043F));
    mix(swiglu(static_cast<float>(i) * 0.01F, 0.7F));
  }
  EXPECT_EQ(hash, 149397634522484371U);
}

}  // namespace
}  // namespace inferno::arith
