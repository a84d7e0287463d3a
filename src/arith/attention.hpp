#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arith/vectors.hpp"

/// The contract's attention, slow and obvious: scores of one query head against the keys, split every 256
/// positions, splits merged in ascending order.
namespace inferno::arith {

/// One position's quantized key or value of one KV head, wherever it is kept: values [E padded to 32], scales
/// [E / 32].
struct QuantizedRow {
  const std::int8_t* values = nullptr;
  const float* scales = nullptr;
};

/// What a split leaves for the merge.
struct SplitResult {
  float maximum = 0.0F;       ///< largest score m
  float denominator = 0.0F;   ///< strided sum of exp(score - m)
  std::vector<float> output;  ///< [E padded to 32]: sum of exp(score - m) * value, weights rounded to 15 bits
};

/// (dot * key scale) * query scale, blocks added from 0 in ascending order. The query's scales have been
/// multiplied by 1 / sqrt(E) before.
float attention_score(const QuantizedVector& query, QuantizedRow key);

/// One split: `keys` and `values` of its positions (at most 256), in order.
///
///   p[i] = exp(score[i] - m)
///   for each block b of 32 dimensions: a[i] = p[i] * value_scale[i][b], rounded to q[i] of 15 bits against
///   the largest a; output = (exact sum of q[i] * value[i]) * (largest a * 1/32767)
SplitResult attend_split(const QuantizedVector& query, std::span<const QuantizedRow> keys,
                         std::span<const QuantizedRow> values);

/// With M the largest maximum and f[s] = exp(m[s] - M): (sum f[s] * output[s]) * reciprocal(sum f[s] *
/// denominator[s]), both sums from 0 in ascending order of splits. Returns [E padded to 32].
std::vector<float> merge_splits(std::span<const SplitResult> splits);

}  // namespace inferno::arith
