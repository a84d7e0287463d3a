#include "synth/random_weights.hpp"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

namespace inferno {
namespace {

using quant::TensorType;

std::vector<std::byte> encoded(const RandomMatrix& matrix, TensorType type, std::uint32_t columns,
                               std::uint64_t first_row, std::uint64_t rows) {
  const quant::Format& format = quant::format_of(type);
  std::vector<std::byte> bytes(columns / format.block_elements * format.block_bytes * rows);
  matrix.fill(format, first_row, bytes);
  return bytes;
}

std::vector<float> decoded(const RandomMatrix& matrix, TensorType type, std::uint32_t columns,
                           std::uint64_t first_row, std::uint64_t rows) {
  const quant::Format& format = quant::format_of(type);
  const auto bytes = encoded(matrix, type, columns, first_row, rows);
  std::vector<float> values(columns * rows);
  format.decode(bytes.data(), values.size() / format.block_elements, values.data());
  return values;
}

// Computed from the definition by another program.
TEST(RandomWeights, FollowTheDefinition) {
  const std::vector<int> n = {4,   90, -54, -95, 76,  73, 10, 18,  77, 12, 98,  -57,  54,  -18, -47, 1,
                              -29, 94, 56,  -56, -43, 50, -3, -32, 25, 98, -67, -107, -45, -63, -85, -44};
  const RandomMatrix matrix(42, "blk.1.ffn_down.weight", 128, 1.0 / 128);
  const auto values = decoded(matrix, TensorType::f32, 128, 5, 1);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(values[32 + i], static_cast<float>(n[i] * 10) * 0x1p-13F) << i;
  }
  std::vector<float> norm(6);
  fill_norm(42, "output_norm.weight", norm);
  EXPECT_THAT(norm, testing::ElementsAre(1.0986328125F, 1.0615234375F, 0.900390625F, 1.1220703125F,
                                         1.0244140625F, 0.9423828125F));
}

TEST(RandomWeights, F32F16AndQ8HoldTheSameNumbers) {
  for (const double deviation_squared : {9.0 / 64, 1.0 / 64, 1.0 / 25600, 4.0}) {
    const RandomMatrix matrix(3, "w", 96, deviation_squared);
    const auto exact = decoded(matrix, TensorType::f32, 96, 0, 50);
    EXPECT_EQ(decoded(matrix, TensorType::f16, 96, 0, 50), exact);
    EXPECT_EQ(decoded(matrix, TensorType::q8_0, 96, 0, 50), exact);
  }
}

TEST(RandomWeights, OtherFormatsHoldThemRounded) {
  const RandomMatrix matrix(3, "w", 96, 1.0 / 96);
  const auto exact = decoded(matrix, TensorType::f32, 96, 0, 50);
  const float largest = std::abs(*std::ranges::max_element(exact, {}, [](float x) { return std::abs(x); }));
  for (const auto& [type, steps] :
       {std::pair{TensorType::bf16, 256.0F}, {TensorType::q5_0, 16.0F}, {TensorType::q4_0, 8.0F}}) {
    const auto values = decoded(matrix, type, 96, 0, 50);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      // At the end opposite to the largest element these formats clip by up to a whole step.
      ASSERT_NEAR(values[i], exact[i], 1.01F * largest / steps) << quant::format_of(type).name;
    }
  }
}

TEST(RandomWeights, APartIsTheSameAsInTheWhole) {
  const RandomMatrix matrix(9, "w", 64, 1.0);
  for (const TensorType type : {TensorType::q8_0, TensorType::f16, TensorType::q4_0}) {
    const auto whole = encoded(matrix, type, 64, 0, 40);
    const auto part = encoded(matrix, type, 64, 17, 3);
    const std::size_t row = whole.size() / 40;
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(17 * row)));
  }
}

TEST(RandomWeights, DifferBySeedNameAndRow) {
  const auto base = decoded(RandomMatrix(1, "a", 64, 1.0), TensorType::f32, 64, 0, 1);
  EXPECT_NE(decoded(RandomMatrix(2, "a", 64, 1.0), TensorType::f32, 64, 0, 1), base);
  EXPECT_NE(decoded(RandomMatrix(std::uint64_t{1} << 32, "a", 64, 1.0), TensorType::f32, 64, 0, 1), base);
  EXPECT_NE(decoded(RandomMatrix(1, "b", 64, 1.0), TensorType::f32, 64, 0, 1), base);
  EXPECT_NE(decoded(RandomMatrix(1, "a", 64, 1.0), TensorType::f32, 64, 1, 1), base);
}

TEST(RandomWeights, HaveTheDeviationAskedForAndNoMean) {
  for (const std::uint32_t columns : {64U, 1024U, 5120U, 25600U}) {
    const double target = 1.0 / columns;
    const RandomMatrix matrix(5, "w", columns, target);
    const auto values = decoded(matrix, TensorType::q8_0, columns, 0, 500);
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const auto count = static_cast<double>(values.size());
    EXPECT_GT(squares / count, 0.49 * target);
    EXPECT_LT(squares / count, 2.02 * target);
    EXPECT_LT(std::abs(sum / count), 5 * std::sqrt(squares / count / count));
  }
}

// Neighbours in either direction, and blocks, are not correlated.
TEST(RandomWeights, AreNotCorrelated) {
  const std::uint32_t columns = 256;
  const auto values = decoded(RandomMatrix(5, "w", columns, 1.0), TensorType::f32, columns, 0, 400);
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  for (const std::size_t distance : {1U, 8U, 32U, 256U, 257U}) {
    double products = 0;
    for (std::size_t i = distance; i < values.size(); ++i) {
      products += static_cast<double>(values[i]) * static_cast<double>(values[i - distance]);
    }
    EXPECT_LT(std::abs(products / squares), 5 / std::sqrt(static_cast<double>(values.size()))) << distance;
  }
}

}  // namespace
}  // namespace inferno
