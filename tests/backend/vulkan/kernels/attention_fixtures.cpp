#include "backend/vulkan/kernels/attention_fixtures.hpp"

namespace inferno::gpu {

arith::QuantizedVector norm_rotate_quantize(std::span<float> head, std::span<const float> weight,
                                            std::span<const float> rope, float epsilon) {
  const float factor = arith::inverse_rms(head, 1.0F / static_cast<float>(head.size()), epsilon);
  for (std::size_t i = 0; i < head.size(); ++i)
    head[i] = arith::multiply(arith::multiply(head[i], factor), weight[i]);
  arith::rotate(head, rope.subspan(head.size() / 2), rope.first(head.size() / 2));
  return arith::quantize_vector(head);
}

std::vector<float> attended(const Heads& heads, const HostCache& cache, std::span<const std::uint32_t> table,
                            std::span<const arith::QuantizedVector> queries, std::uint32_t position) {
  std::vector<float> mixed;
  for (std::uint32_t head = 0; head < heads.heads(); ++head) {
    std::vector<arith::SplitResult> splits;
    std::vector<arith::QuantizedRow> keys;
    std::vector<arith::QuantizedRow> values;
    for (std::uint32_t p = 0; p <= position; ++p) {
      const auto block = table[p / heads.block_size];
      keys.push_back(cache.key(block, head / heads.group, p % heads.block_size));
      values.push_back(cache.value(block, head / heads.group, p % heads.block_size));
      if (keys.size() == arith::kSplit || p == position) {
        splits.push_back(arith::attend_split(queries[head], keys, values));
        keys.clear();
        values.clear();
      }
    }
    const auto merged = arith::merge_splits(splits);
    mixed.insert(mixed.end(), merged.begin(), merged.begin() + heads.head_dim);
  }
  return mixed;
}

}  // namespace inferno::gpu
