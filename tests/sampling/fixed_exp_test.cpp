#include "sampling/fixed_exp.hpp"

#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace inferno::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float scale_at(double temperature) {
  return static_cast<float>(0x1p27 * std::log2(std::exp(1.0)) / temperature);
}

TEST(FixedExp, FallsStrictlyOverNeighboursAllAlong) {
  // Runs of neighbours, spread over the whole domain; the step is prime so that they fall everywhere.
  for (uint first = 0; first < (1U << 27) - 64; first += 99991) {
    uint previous = fixed_exp2(first);
    for (uint fraction = first + 1; fraction < first + 64; ++fraction) {
      const uint value = fixed_exp2(fraction);
      ASSERT_LT(value, previous) << fraction;
      previous = value;
    }
  }
}

TEST(FixedExp, IsContinuousWhereAnotherHalvingBegins) {
  EXPECT_EQ(fixed_exp2(0), kOne);
  EXPECT_GT(fixed_exp2((1U << 27) - 1), kOne / 2);
  EXPECT_LT(fixed_exp2((1U << 27) - 1), kOne / 2 + 10);
}

TEST(FixedExp, StaysWithin5e9OfExp2) {
  for (uint fraction = 0; fraction < 1U << 27; fraction += 1009) {
    const double exact = 0x1p31 * std::exp2(-static_cast<double>(fraction) * 0x1p-27);
    ASSERT_NEAR(fixed_exp2(fraction), exact, exact * 8e-9) << fraction;
  }
}

TEST(Weight, MatchesExpOverTheWholeRange) {
  for (const double temperature : {0.001, 0.1, 0.7, 1.0, 1.5, 37.0, 1e9}) {
    const float scale = scale_at(temperature);
    for (int step = 0; step < 29200; ++step) {
      const double x = step * 0.00137;
      const auto distance = static_cast<float>(x * temperature);
      const double exponent = static_cast<double>(distance) / temperature;
      const double exact = 0x1p31 * std::exp(-exponent);
      const double bound = 0.5 + exact * (8e-9 + 0x1p-23 * exponent);
      ASSERT_NEAR(weight_of(distance, scale), exact, bound) << temperature << " " << x;
    }
  }
}

TEST(Weight, NeverRisesWithDistance) {
  const float scale = scale_at(1.0);
  uint previous = weight_of(0.0F, scale);
  for (int step = 0; step < 2500000; ++step) {
    const float distance = static_cast<float>(step) * 1e-5F;
    const uint weight = weight_of(distance, scale);
    ASSERT_LE(weight, previous) << distance;
    previous = weight;
  }
  EXPECT_EQ(previous, 0U);
}

TEST(Weight, HasExactEnds) {
  const float scale = scale_at(1.0);
  EXPECT_EQ(weight_of(0.0F, scale), kOne);
  EXPECT_EQ(weight_of(21.48F, scale), 1U);  // 2^31 exp(-21.48) = 1.01
  EXPECT_EQ(weight_of(22.19F, scale), 0U);  // 0.498
  EXPECT_EQ(weight_of(1e30F, scale), 0U);
  EXPECT_EQ(weight_of(kInfinity, scale), 0U);
  EXPECT_EQ(weight_of(std::numeric_limits<float>::denorm_min(), scale), kOne);
  const float coldest = scale_at(std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isnormal(coldest)) << "a subnormal setting would be flushed on some devices";
  EXPECT_EQ(weight_of(100.0F, coldest), kOne);
  EXPECT_EQ(weight_of(kInfinity, coldest), 0U);
}

TEST(OrderKey, OrdersAsFloatsDoAndComesBack) {
  const std::array values = {-kInfinity, -3e38F, -1.0F, -1e-40F, 0.0F,     1e-40F,
                             1e-38F,     0.5F,   1.0F,  3e38F,   kInfinity};
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(value_of_key(order_key(values[i])), values[i]);
    if (i > 0) {
      EXPECT_GT(order_key(values[i]), order_key(values[i - 1])) << values[i];
    }
  }
  EXPECT_EQ(order_key(-0.0F), order_key(0.0F));
}

}  // namespace
}  // namespace inferno::sampling
