#include "backend/cpu/scalar/attention.hpp"

#include <algorithm>
#include <cmath>

#include "backend/cpu/scalar/dot.hpp"
#include "backend/cpu/scalar/softmax.hpp"
#include "step/plan.hpp"

namespace inferno::scalar {

void attention(const ModelConfig& config, Cache& cache, std::size_t layer,
               std::span<const std::uint32_t> table, std::uint32_t position, std::span<const float> query,
               std::span<float> out, std::span<float> scratch) {
  const std::size_t head_dim = config.head_dim;
  const std::size_t group = config.heads / config.kv_heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  const std::uint32_t positions = position + 1;

  for (std::size_t head = 0; head < config.heads; ++head) {
    const float* q = query.data() + head * head_dim;
    PartialSoftmax all{.weighted = scratch.first(head_dim)};
    PartialSoftmax split{.weighted = scratch.subspan(head_dim, head_dim)};
    all.clear();
    for (std::uint32_t first = 0; first < positions; first += kSplitPositions) {
      split.clear();
      const std::uint32_t end = std::min(first + kSplitPositions, positions);
      for (std::uint32_t at = first; at < end; ++at) {
        const std::uint32_t block = table[at / cache.block_size()];
        const std::size_t offset = at % cache.block_size() * head_dim;
        const float* key = cache.keys(block, layer, head / group) + offset;
        const float* value = cache.values(block, layer, head / group) + offset;
        split.add(dot(q, key, head_dim) * scale, value);
      }
      all.merge(split);
    }
    for (std::size_t i = 0; i < head_dim; ++i) out[head * head_dim + i] = all.weighted[i] / all.sum;
  }
}

}  // namespace inferno::scalar
