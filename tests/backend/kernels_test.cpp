#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "backend/cpu/scalar/attention.hpp"
#include "backend/cpu/scalar/dot.hpp"
#include "backend/cpu/scalar/elementwise.hpp"
#include "backend/cpu/scalar/matmul.hpp"
#include "backend/cpu/scalar/softmax.hpp"
#include "quant/format.hpp"

namespace inferno::scalar {
namespace {

std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(generator()) / static_cast<float>(std::mt19937::max()) * 2.0F - 1.0F;
  }
  return values;
}

TEST(Dot, IsExactOnWholeNumbersOfEveryLength) {
  for (std::size_t n = 0; n < 100; ++n) {
    std::vector<float> a(n);
    std::vector<float> b(n);
    double expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>(i + 1);
      b[i] = static_cast<float>(2 * i) - 50.0F;
      expected += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    EXPECT_EQ(dot(a.data(), b.data(), n), static_cast<float>(expected)) << n;
  }
}

/// The order of the sum is part of the function: sixteen strided sums, then a tree.
TEST(Dot, AddsInTheOrderItSays) {
  for (const std::size_t n : {1U, 15U, 16U, 17U, 333U, 1024U}) {
    const auto a = random_floats(n, 1);
    const auto b = random_floats(n, 2);
    float sums[16] = {};
    for (std::size_t i = 0; i < n; ++i) {
      volatile float product = a[i] * b[i];
      sums[i % 16] += product;
    }
    for (const std::size_t width : {8U, 4U, 2U, 1U}) {
      for (std::size_t i = 0; i < width; ++i) sums[i] += sums[i + width];
    }
    EXPECT_EQ(dot(a.data(), b.data(), n), sums[0]) << n;
  }
}

TEST(Dot, StaysAccurateOnLongRows) {
  const std::size_t n = 100000;
  std::vector<float> ones(n, 0.1F);
  const double expected = static_cast<double>(n) * static_cast<double>(0.1F) * static_cast<double>(0.1F);
  EXPECT_NEAR(dot(ones.data(), ones.data(), n) / expected, 1.0, 1e-4);
}

TEST(Matmul, MultipliesRowsOfEveryFormat) {
  const std::uint32_t rows = 7;
  const std::uint32_t columns = 96;
  const std::size_t tokens = 5;
  for (const quant::Format& format : quant::formats()) {
    const auto values = random_floats(std::size_t{rows} * columns, 3);
    const std::size_t blocks = values.size() / format.block_elements;
    std::vector<std::byte> bytes(blocks * format.block_bytes);
    format.encode(values.data(), blocks, bytes.data());
    std::vector<float> decoded(values.size());
    format.decode(bytes.data(), blocks, decoded.data());

    const Matrix matrix{&format, rows, columns, bytes.data(), "test"};
    const auto x = random_floats(tokens * columns, 4);
    std::vector<float> y(tokens * rows);
    std::vector<float> scratch(columns);
    matmul(matrix, x, tokens, y, scratch);
    for (std::size_t token = 0; token < tokens; ++token) {
      for (std::size_t row = 0; row < rows; ++row) {
        EXPECT_EQ(y[token * rows + row], dot(&decoded[row * columns], &x[token * columns], columns))
            << format.name;
      }
    }
  }
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  const std::vector<float> x = {3, 4, 0, 0, 1, 1, 1, 1};
  const std::vector<float> weight = {1, 2, 1, 1};
  std::vector<float> y(8);
  rms_norm(x, weight, 0.0F, y);
  EXPECT_FLOAT_EQ(y[0], 3 / 2.5F);  // sqrt(25 / 4) = 2.5
  EXPECT_FLOAT_EQ(y[1], 2 * 4 / 2.5F);
  EXPECT_FLOAT_EQ(y[4], 1.0F);
  EXPECT_FLOAT_EQ(y[5], 2.0F);
}

TEST(RmsNorm, SquaresMayBeBeyondFloats) {
  const std::vector<float> x = {3e25F, 4e25F, 0, 0};
  const std::vector<float> weight(4, 1.0F);
  std::vector<float> y(4);
  rms_norm(x, weight, 1e-6F, y);
  EXPECT_FLOAT_EQ(y[0], 3 / 2.5F);
  EXPECT_FLOAT_EQ(y[1], 4 / 2.5F);
}

TEST(RmsNorm, EpsilonKeepsZeroFinite) {
  std::vector<float> x(8, 0.0F);
  const std::vector<float> weight(8, 1.0F);
  rms_norm(x, weight, 1e-6F, x);
  EXPECT_EQ(x, std::vector<float>(8, 0.0F));
}

TEST(Rope, TurnsHalvesNotNeighbours) {
  // Two heads of four elements, a quarter turn for pair 0 and none for pair 1.
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> sine = {1, 0};
  const std::vector<float> cosine = {0, 1};
  rope(x, sine, cosine);
  EXPECT_EQ(x, (std::vector<float>{-3, 2, 1, 4, -7, 6, 5, 8}));
}

TEST(Swiglu, HoldsAtTheEnds) {
  std::vector<float> gate = {0, 1, -1, 100, -100, -1e30F};
  const std::vector<float> up = {5, 2, 2, 3, 3, 1};
  swiglu(gate, up);
  EXPECT_EQ(gate[0], 0.0F);
  EXPECT_FLOAT_EQ(gate[1], 2.0F / (1.0F + std::exp(-1.0F)));
  EXPECT_FLOAT_EQ(gate[2], -2.0F / (1.0F + std::exp(1.0F)));
  EXPECT_FLOAT_EQ(gate[3], 300.0F);
  EXPECT_EQ(gate[4], -0.0F);
  EXPECT_EQ(gate[5], -0.0F);
}

TEST(PartialSoftmax, MergesIntoTheSoftmaxOverAllPositions) {
  const std::size_t width = 3;
  const std::size_t positions = 100;
  const auto values = random_floats(positions * width, 5);
  auto scores = random_floats(positions, 6);
  for (float& score : scores) score *= 20.0F;
  std::vector<double> expected(width, 0.0);
  double largest = -1e30;
  for (const float score : scores) largest = std::max(largest, static_cast<double>(score));
  double sum = 0;
  for (std::size_t i = 0; i < positions; ++i) {
    const double p = std::exp(scores[i] - largest);
    sum += p;
    for (std::size_t j = 0; j < width; ++j) expected[j] += p * values[i * width + j];
  }
  for (const std::size_t cut : {1U, 37U, 99U}) {
    std::vector<float> first_sum(width);
    std::vector<float> second_sum(width);
    PartialSoftmax first{.weighted = first_sum};
    PartialSoftmax second{.weighted = second_sum};
    first.clear();
    second.clear();
    for (std::size_t i = 0; i < cut; ++i) first.add(scores[i], &values[i * width]);
    for (std::size_t i = cut; i < positions; ++i) second.add(scores[i], &values[i * width]);
    first.merge(second);
    for (std::size_t j = 0; j < width; ++j) {
      EXPECT_NEAR(first.weighted[j] / first.sum, expected[j] / sum, 1e-6) << cut;
    }
  }
}

/// Scores far beyond what exp can hold.
TEST(PartialSoftmax, NeverOverflows) {
  std::vector<float> weighted(1);
  PartialSoftmax softmax{.weighted = weighted};
  softmax.clear();
  const float value[] = {1, 2, 3};
  softmax.add(-3e38F, &value[0]);
  softmax.add(1000.0F, &value[1]);
  softmax.add(-1000.0F, &value[2]);
  EXPECT_EQ(softmax.sum, 1.0F);
  EXPECT_EQ(softmax.weighted[0], 2.0F);
  EXPECT_EQ(softmax.maximum, 1000.0F);
}

TEST(PartialSoftmax, NanIsNotLost) {
  std::vector<float> weighted(1);
  PartialSoftmax softmax{.weighted = weighted};
  softmax.clear();
  const float value = 1.0F;
  softmax.add(1.0F, &value);
  softmax.add(std::numeric_limits<float>::quiet_NaN(), &value);
  softmax.add(2.0F, &value);
  EXPECT_TRUE(std::isnan(softmax.weighted[0] / softmax.sum));
}

/// Equal keys: attention is the mean of the values, over any number of splits and wherever blocks lie.
TEST(Attention, EqualScoresGiveTheMean) {
  ModelConfig config;
  config.layers = 1;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 2;
  for (const std::uint32_t positions : {1U, 2U, 255U, 256U, 257U, 1000U}) {
    const std::uint32_t block_size = 64;
    const std::uint32_t blocks = positions / block_size + 1;
    Cache cache(config, block_size, blocks);
    std::vector<std::uint32_t> table(blocks);
    for (std::uint32_t i = 0; i < blocks; ++i) table[i] = blocks - 1 - i;
    for (std::uint32_t position = 0; position < positions; ++position) {
      const std::size_t offset = position % block_size * std::size_t{2};
      for (std::size_t head = 0; head < 2; ++head) {
        float* value = cache.values(table[position / block_size], 0, head) + offset;
        value[0] = static_cast<float>(position);
        value[1] = static_cast<float>(head);
      }
    }
    const std::vector<float> query(8, 1.0F);
    std::vector<float> out(8);
    std::vector<float> scratch(4);
    attention(config, cache, 0, table, positions - 1, query, out, scratch);
    for (std::size_t head = 0; head < 4; ++head) {
      EXPECT_NEAR(out[2 * head], static_cast<float>(positions - 1) / 2, 1e-6 * positions) << positions;
      EXPECT_EQ(out[2 * head + 1], head < 2 ? 0.0F : 1.0F);
    }
  }
}

}  // namespace
}  // namespace inferno::scalar
