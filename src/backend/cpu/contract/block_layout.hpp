#pragma once

#include <cstddef>
#include <cstdint>

#include "model/config.hpp"

namespace inferno::cpu {

/// How the contract's cache blocks look outside an executor (exported bytes), the same for every contract
/// backend, whatever layout its kernels prefer: for each layer, for each KV head
///
///     keys          [block_size][E32]  int8     E32 = head size rounded up to 32
///     key scales    [block_size][B]    float32  B = E32 / 32
///     values        [block_size][E32]  int8
///     value scales  [block_size][B]    float32
struct BlockLayout {
  std::size_t block_size = 0;
  std::size_t layers = 0;
  std::size_t kv_heads = 0;
  std::size_t padded_dim = 0;    ///< E32
  std::size_t scale_blocks = 0;  ///< B

  BlockLayout() = default;
  BlockLayout(const ModelConfig& config, std::uint32_t positions)
      : block_size(positions),
        layers(config.layers),
        kv_heads(config.kv_heads),
        padded_dim((std::size_t{config.head_dim} + 31) / 32 * 32),
        scale_blocks(padded_dim / 32) {}

  std::size_t values_bytes() const { return block_size * padded_dim; }
  std::size_t scales_bytes() const { return block_size * scale_blocks * sizeof(float); }
  /// Bytes of one KV head of one layer.
  std::size_t head_bytes() const { return 2 * (values_bytes() + scales_bytes()); }
  std::size_t block_bytes() const { return layers * kv_heads * head_bytes(); }
  std::size_t head_offset(std::size_t layer, std::size_t kv_head) const {
    return (layer * kv_heads + kv_head) * head_bytes();
  }

  // Offsets within a KV head's bytes.
  std::size_t key_scales_offset() const { return values_bytes(); }
  std::size_t values_offset() const { return values_bytes() + scales_bytes(); }
  std::size_t value_scales_offset() const { return 2 * values_bytes() + scales_bytes(); }
};

/// Capabilities::cache_format of every contract backend.
inline constexpr const char* kContractCacheFormat = "int8x32";

}  // namespace inferno::cpu
