#pragma once

#include <algorithm>
#include <cmath>
#include <ostream>

#include "arith/attention.hpp"
#include "backend/vulkan/kernels/fixtures.hpp"

namespace inferno::gpu {

struct Heads {
  std::uint32_t kv_heads;
  std::uint32_t group;
  std::uint32_t head_dim;
  std::uint32_t block_size;

  std::uint32_t heads() const { return kv_heads * group; }
  std::uint32_t padded_dim() const { return (head_dim + 31) / 32 * 32; }
  std::uint32_t scale_blocks() const { return padded_dim() / 32; }
  float softmax_scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim))); }
  /// Bytes of a KV head of a cache block; keys, their scales, values and their scales follow one another.
  std::size_t head_bytes() const { return 2 * std::size_t{block_size} * (padded_dim() + 4 * scale_blocks()); }
};

inline std::ostream& operator<<(std::ostream& out, const Heads& heads) {
  return out << heads.kv_heads << " KV heads in groups of " << heads.group << ", head size " << heads.head_dim
             << ", blocks of " << heads.block_size;
}

/// One layer's cache as the host sees it: what kernels are given, and where a position's key and value are.
class HostCache {
 public:
  HostCache(const Heads& heads, std::uint32_t blocks)
      : heads_(heads), bytes_(blocks * heads.kv_heads * heads.head_bytes(), std::byte{0xFF}) {}

  arith::QuantizedRow key(std::uint32_t block, std::uint32_t kv_head, std::uint32_t offset) const {
    return at(block, kv_head, offset, 0);
  }
  arith::QuantizedRow value(std::uint32_t block, std::uint32_t kv_head, std::uint32_t offset) const {
    return at(block, kv_head, offset, heads_.head_bytes() / 2);
  }
  void put(arith::QuantizedRow where, const arith::QuantizedVector& x) {
    std::copy(x.values.begin(), x.values.end(), const_cast<std::int8_t*>(where.values));
    std::copy(x.scales.begin(), x.scales.end(), const_cast<float*>(where.scales));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  arith::QuantizedRow at(std::uint32_t block, std::uint32_t kv_head, std::uint32_t offset,
                         std::size_t part) const {
    const auto* head = bytes_.data() + (block * heads_.kv_heads + kv_head) * heads_.head_bytes() + part;
    return {reinterpret_cast<const std::int8_t*>(head) + offset * heads_.padded_dim(),
            reinterpret_cast<const float*>(head + heads_.block_size * heads_.padded_dim()) +
                offset * heads_.scale_blocks()};
  }

  Heads heads_;
  std::vector<std::byte> bytes_;
};

/// A head's RMSNorm, rotary embedding and quantization as the contract has them; `head` holds the floats
/// after. `rope`: cosines and sines of the position, [E].
arith::QuantizedVector norm_rotate_quantize(std::span<float> head, std::span<const float> weight,
                                            std::span<const float> rope, float epsilon);

/// What attention makes of a token's queries [H], [H * E].
std::vector<float> attended(const Heads& heads, const HostCache& cache, std::span<const std::uint32_t> table,
                            std::span<const arith::QuantizedVector> queries, std::uint32_t position);

}  // namespace inferno::gpu
