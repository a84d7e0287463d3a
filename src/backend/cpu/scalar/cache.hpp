#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/scalar/buffer.hpp"
#include "model/config.hpp"

namespace inferno::scalar {

/// Keys (after RoPE) and values of all layers in float, in blocks of positions:
/// [blocks][L][keys, values][K][block_size][E]. A block holds its positions of every layer, so that copying
/// or exporting one is copying one run of bytes; a head's positions lie one after the other.
class Cache {
 public:
  Cache() = default;
  /// Throws Error if there is not enough memory.
  Cache(const ModelConfig& config, std::uint32_t block_size, std::uint32_t blocks);

  /// Floats of one block of a model whose tensors exist.
  static std::uint64_t block_floats(const ModelConfig& config, std::uint32_t block_size);

  std::uint32_t block_size() const { return block_size_; }
  /// One block's floats.
  std::span<float> block(std::uint32_t block) { return buffer_.span().subspan(block * stride_, stride_); }
  std::span<const float> block(std::uint32_t block) const {
    return buffer_.span().subspan(block * stride_, stride_);
  }

  /// Keys of one head in one block: [block_size, E].
  float* keys(std::uint32_t block, std::size_t layer, std::size_t kv_head) {
    return at(block, 2 * layer, kv_head);
  }
  /// Values, likewise.
  float* values(std::uint32_t block, std::size_t layer, std::size_t kv_head) {
    return at(block, 2 * layer + 1, kv_head);
  }

 private:
  float* at(std::uint32_t block, std::size_t part, std::size_t kv_head) {
    return buffer_.data() + block * stride_ + (part * kv_heads_ + kv_head) * head_floats_;
  }

  Buffer buffer_;
  std::size_t stride_ = 0;       // floats of a block
  std::size_t head_floats_ = 0;  // block_size * E
  std::size_t kv_heads_ = 0;     // K
  std::uint32_t block_size_ = 0;
};

}  // namespace inferno::scalar
