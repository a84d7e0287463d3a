#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/scalar/cache.hpp"
#include "model/config.hpp"

namespace inferno::scalar {

/// Grouped-query attention of one token over the positions 0 .. `position`, its own included, which are in
/// the cache: out[h] = sum over positions of softmax(q[h] . k / sqrt(E)) * v, where query head h reads the
/// keys and values of head h / (H / K).
///
/// `query` and `out` are [H, E]; `table` maps block indices of this row to blocks of the cache; `scratch`
/// is [2, E]. No score is kept: positions are taken one by one, in splits of kSplitPositions whose results
/// are merged in ascending order (shorter sums round less). Blocks only say where a position lies; they do
/// not change the order of the sums.
void attention(const ModelConfig& config, Cache& cache, std::size_t layer,
               std::span<const std::uint32_t> table, std::uint32_t position, std::span<const float> query,
               std::span<float> out, std::span<float> scratch);

}  // namespace inferno::scalar
