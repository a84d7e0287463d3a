#include "arith/attention.hpp"

#include <algorithm>

namespace inferno::arith {
namespace {

constexpr std::size_t kBlockSize = kBlock;

/// The larger one; a NaN on the right is passed over, it shows up in the sums soon enough.
float larger(float a, float b) {
  return b > a ? b : a;
}

}  // namespace

float attention_score(const QuantizedVector& query, QuantizedRow key) {
  float score = 0.0F;
  for (std::size_t block = 0; block < query.scales.size(); ++block) {
    const auto dot = block_dot(&query.values[block * kBlockSize], key.values + block * kBlockSize);
    score = add(score, multiply(multiply(to_float(dot), key.scales[block]), query.scales[block]));
  }
  return score;
}

SplitResult attend_split(const QuantizedVector& query, std::span<const QuantizedRow> keys,
                         std::span<const QuantizedRow> values) {
  const std::size_t positions = keys.size();
  const std::size_t blocks = query.scales.size();
  SplitResult result{.output = std::vector<float>(blocks * kBlockSize)};

  std::vector<float> weights(positions);
  for (std::size_t i = 0; i < positions; ++i) weights[i] = attention_score(query, keys[i]);
  result.maximum = weights[0];
  for (const float score : weights) result.maximum = larger(result.maximum, score);
  for (float& weight : weights) weight = exponential(subtract(weight, result.maximum));
  result.denominator = strided_sum(weights);

  for (std::size_t block = 0; block < blocks; ++block) {
    uint largest = 0;
    for (std::size_t i = 0; i < positions; ++i) {
      largest = std::max(largest, magnitude_bits(multiply(weights[i], values[i].scales[block])));
    }
    const float scale = block_scale(largest, kWeightStep);
    const float inverse = block_inverse(largest, kWeightLevels);
    for (std::size_t d = block * kBlockSize; d < (block + 1) * kBlockSize; ++d) {
      std::int32_t sum = 0;
      for (std::size_t i = 0; i < positions; ++i) {
        const int weight = quantize(multiply(weights[i], values[i].scales[block]), inverse);
        sum += weight * std::int32_t{values[i].values[d]};
      }
      result.output[d] = multiply(to_float(sum), scale);
    }
  }
  return result;
}

std::vector<float> merge_splits(std::span<const SplitResult> splits) {
  float maximum = splits[0].maximum;
  for (const auto& split : splits) maximum = larger(maximum, split.maximum);
  std::vector<float> output(splits[0].output.size(), 0.0F);
  float denominator = 0.0F;
  for (const auto& split : splits) {
    const float factor = exponential(subtract(split.maximum, maximum));
    denominator = add(denominator, multiply(factor, split.denominator));
    for (std::size_t d = 0; d < output.size(); ++d)
      output[d] = add(output[d], multiply(factor, split.output[d]));
  }
  const float inverse = reciprocal(denominator);
  for (float& value : output) value = multiply(value, inverse);
  return output;
}

}  // namespace inferno::arith
