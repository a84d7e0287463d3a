#include "arith/vectors.hpp"

#include <algorithm>
#include <array>

namespace inferno::arith {
namespace {

constexpr std::size_t kBlockSize = kBlock;
constexpr std::size_t kSegmentSize = kSegment;

/// Adds the upper half to the lower until one sum is left.
template <std::size_t N>
float tree_sum(std::array<float, N> sums) {
  for (std::size_t half = N / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) sums[j] = add(sums[j], sums[j + half]);
  }
  return sums[0];
}

}  // namespace

QuantizedVector quantize_vector(std::span<const float> x) {
  const std::size_t blocks = (x.size() + kBlockSize - 1) / kBlockSize;
  QuantizedVector result{std::vector<std::int8_t>(blocks * kBlockSize), std::vector<float>(blocks)};
  for (std::size_t block = 0; block < blocks; ++block) {
    const auto begin = block * kBlockSize;
    const auto end = std::min(begin + kBlockSize, x.size());
    uint largest = 0;
    for (auto i = begin; i < end; ++i) largest = std::max(largest, magnitude_bits(x[i]));
    result.scales[block] = block_scale(largest, kInt8Step);
    const float inverse = block_inverse(largest, kInt8Levels);
    for (auto i = begin; i < end; ++i) result.values[i] = static_cast<std::int8_t>(quantize(x[i], inverse));
  }
  return result;
}

float strided_sum(std::span<const float> x) {
  std::array<float, kStride> sums{};
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % kStride] = add(sums[i % kStride], x[i]);
  return tree_sum(sums);
}

float inverse_rms(std::span<const float> x, float inverse_length, float epsilon) {
  std::vector<float> squares(x.size());
  std::transform(x.begin(), x.end(), squares.begin(), [](float value) { return multiply(value, value); });
  return reciprocal_sqrt(add(multiply(strided_sum(squares), inverse_length), epsilon));
}

std::int32_t block_dot(const std::int8_t* a, const std::int8_t* b) {
  std::int32_t dot = 0;
  for (std::size_t i = 0; i < kBlockSize; ++i) dot += std::int32_t{a[i]} * std::int32_t{b[i]};
  return dot;
}

float quantized_dot(std::span<const std::int8_t> weights, std::span<const float> weight_scales,
                    const QuantizedVector& x) {
  constexpr std::size_t kBlocksPerSegment = kSegmentSize / kBlockSize;
  const std::size_t blocks = weight_scales.size();
  float sum = 0.0F;
  for (std::size_t first = 0; first < blocks; first += kBlocksPerSegment) {
    float segment = 0.0F;
    for (auto block = first; block < std::min(first + kBlocksPerSegment, blocks); ++block) {
      const auto dot = block_dot(&weights[block * kBlockSize], &x.values[block * kBlockSize]);
      segment = add(segment, multiply(multiply(to_float(dot), weight_scales[block]), x.scales[block]));
    }
    sum = add(sum, segment);
  }
  return sum;
}

float float_dot(std::span<const float> weights, std::span<const float> x) {
  float sum = 0.0F;
  for (std::size_t first = 0; first < x.size(); first += kSegmentSize) {
    std::array<float, kFloatStride> sums{};
    for (auto i = first; i < std::min(first + kSegmentSize, x.size()); ++i) {
      sums[i % kFloatStride] = add(sums[i % kFloatStride], multiply(weights[i], x[i]));
    }
    sum = add(sum, tree_sum(sums));
  }
  return sum;
}

void rotate(std::span<float> head, std::span<const float> sine, std::span<const float> cosine) {
  const std::size_t half = head.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const float a = head[i];
    const float b = head[i + half];
    head[i] = subtract(multiply(a, cosine[i]), multiply(b, sine[i]));
    head[i + half] = add(multiply(b, cosine[i]), multiply(a, sine[i]));
  }
}

}  // namespace inferno::arith
