#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/contract/aligned_buffer.hpp"
#include "backend/cpu/contract/block_layout.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"

namespace inferno::cpu {

/// The int8 cache in the layout that the kernels like (CacheView), block by block: [blocks][L][K][keys, key
/// scales, values, value scales]. A block holds its positions of every layer, so copying one is copying one
/// run of bytes.
class KvStore {
 public:
  KvStore() = default;
  /// Throws std::bad_alloc.
  /// `populate`: all of the memory is brought in now, not when it is touched.
  KvStore(const ModelConfig& config, std::uint32_t block_size, std::uint32_t blocks, bool populate = false);

  /// Bytes of one block in this layout.
  static std::size_t stored_block_bytes(const ModelConfig& config, std::uint32_t block_size);

  /// One KV head of one layer in one block.
  CacheView view(std::uint32_t block, std::size_t layer, std::size_t kv_head) const;
  std::uint32_t block_size() const { return static_cast<std::uint32_t>(layout_.block_size); }
  const BlockLayout& layout() const { return layout_; }

  void copy(std::uint32_t source, std::uint32_t target);
  /// To and from the layout that leaves the executor. A key block whose scale is zero is written as zeros:
  /// positions that were never written look alike whatever the kernels keep there.
  void read(std::uint32_t block, std::span<std::byte> target) const;
  void write(std::uint32_t block, std::span<const std::byte> source);

 private:
  BlockLayout layout_;
  std::size_t padded_positions_ = 0;  // P16
  std::size_t head_bytes_ = 0;
  std::size_t block_bytes_ = 0;
  AlignedBuffer<std::byte> memory_;
};

}  // namespace inferno::cpu
