#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arith/quantize.hpp"

/// The contract's rules for whole vectors, slow and obvious: the definition that every kernel must equal bit
/// for bit. What is an order of additions here is a promise; how a kernel gets there is its own business.
namespace inferno::arith {

/// Integers with a scale for every 32: value i is about values[i] * scales[i / 32].
struct QuantizedVector {
  std::vector<std::int8_t> values;  ///< [n], padded with zeros to a multiple of 32
  std::vector<float> scales;        ///< [ceil(n / 32)]
};

/// Quantizes in blocks of 32; a last block that is not full is padded with zeros.
QuantizedVector quantize_vector(std::span<const float> x);

/// 32 partial sums, number j of elements j, j + 32, j + 64, ... in ascending order, each from 0; then a tree:
/// sum j += sum j + 16, then + 8, + 4, + 2, + 1.
float strided_sum(std::span<const float> x);

/// 1 / rms of a vector: reciprocal_sqrt(strided_sum of squares * inverse_length + epsilon), `inverse_length`
/// being the float 1 / n.
float inverse_rms(std::span<const float> x, float inverse_length, float epsilon);

/// Exact: the sum of 32 products.
std::int32_t block_dot(const std::int8_t* a, const std::int8_t* b);

/// (dot * weight_scale) * activation_scale, blocks added from 0 in ascending order within segments of 256
/// columns, segments added from 0 in ascending order. `weights` and `weight_scales` as the file's block
/// format decodes to integers.
float quantized_dot(std::span<const std::int8_t> weights, std::span<const float> weight_scales,
                    const QuantizedVector& x);

/// Float weights: products summed within a segment of 256 columns by 16 strided partial sums and a tree (8,
/// 4, 2, 1), segments added from 0 in ascending order.
float float_dot(std::span<const float> weights, std::span<const float> x);

/// Rotates the pairs (x[i], x[i + E / 2]) of one head: (a cos - b sin, b cos + a sin).
void rotate(std::span<float> head, std::span<const float> sine, std::span<const float> cosine);

}  // namespace inferno::arith
