#include "arith/attention.hpp"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace inferno::arith {
namespace {

/// Random keys and values of one head.
struct Positions {
  std::vector<QuantizedVector> keys, values;
  std::vector<QuantizedRow> key_rows, value_rows;

  Positions(std::size_t count, std::size_t head_dim, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto vector = [&] {
      std::vector<float> x(head_dim);
      for (float& value : x) value = normal(random);
      return quantize_vector(x);
    };
    for (std::size_t i = 0; i < count; ++i) {
      keys.push_back(vector());
      values.push_back(vector());
    }
    for (std::size_t i = 0; i < count; ++i) {
      key_rows.push_back({keys[i].values.data(), keys[i].scales.data()});
      value_rows.push_back({values[i].values.data(), values[i].scales.data()});
    }
  }
};

double dequantized(const QuantizedVector& vector, std::size_t i) {
  return double{vector.scales[i / 32]} * vector.values[i];
}

/// Attention in double precision over the quantized query, keys and values.
std::vector<double> exact(const QuantizedVector& query, const Positions& positions, std::size_t dims) {
  std::vector<double> scores;
  for (const auto& key : positions.keys) {
    double score = 0;
    for (std::size_t i = 0; i < dims; ++i) score += dequantized(query, i) * dequantized(key, i);
    scores.push_back(score);
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  std::vector<double> output(dims);
  for (std::size_t p = 0; p < scores.size(); ++p) {
    const double weight = std::exp(scores[p] - largest);
    sum += weight;
    for (std::size_t i = 0; i < dims; ++i) output[i] += weight * dequantized(positions.values[p], i);
  }
  for (double& value : output) value /= sum;
  return output;
}

std::vector<float> by_contract(const QuantizedVector& query, const Positions& positions) {
  std::vector<SplitResult> splits;
  for (std::size_t first = 0; first < positions.keys.size(); first += kSplit) {
    const auto count = std::min<std::size_t>(kSplit, positions.keys.size() - first);
    splits.push_back(attend_split(query, std::span(positions.key_rows).subspan(first, count),
                                  std::span(positions.value_rows).subspan(first, count)));
  }
  return merge_splits(splits);
}

TEST(Attention, IsCloseToExactOverTheSameIntegers) {
  for (const std::size_t head_dim : {32U, 64U, 80U, 128U}) {
    for (const std::size_t count : {1U, 2U, 255U, 256U, 257U, 700U}) {
      const Positions positions(count, head_dim, 3);
      std::vector<float> x(head_dim);
      for (std::size_t i = 0; i < head_dim; ++i) x[i] = std::sin(static_cast<float>(i));
      auto query = quantize_vector(x);
      const auto output = by_contract(query, positions);
      const auto expected = exact(query, positions, (head_dim + 31) / 32 * 32);
      for (std::size_t i = 0; i < head_dim; ++i)
        EXPECT_NEAR(output[i], expected[i], 2e-4) << head_dim << " " << count;
    }
  }
}

TEST(Attention, OnePositionGivesItsValue) {
  const Positions positions(1, 64, 5);
  const auto output = by_contract(quantize_vector(std::vector<float>(64, 1.0F)), positions);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(output[i], dequantized(positions.values[0], i), 1e-4);
}

TEST(Attention, ANanAnywhereShowsUp) {
  for (const bool in_key : {true, false}) {
    Positions positions(300, 64, 7);
    (in_key ? positions.keys : positions.values)[270].scales[0] = std::numeric_limits<float>::quiet_NaN();
    const auto output = by_contract(quantize_vector(std::vector<float>(64, 1.0F)), positions);
    EXPECT_TRUE(std::isnan(output[0])) << (in_key ? "key" : "value");
  }
}

}  // namespace
}  // namespace inferno::arith
