#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/contract/block_layout.hpp"
#include "backend/gpu/device.hpp"

namespace inferno::gpu {

/// The key/value cache on a device: one buffer per layer, [blocks] of what cpu::BlockLayout says of one
/// layer, so that a block leaves the executor as it lies here.
class DeviceCache {
 public:
  DeviceCache() = default;
  /// Zeroed. Throws Error naming needed and free bytes, or the limit of the device.
  DeviceCache(Device& device, const ModelConfig& config, std::uint32_t block_size, std::uint32_t blocks);

  /// Bytes that a block takes of each layer.
  static std::uint64_t layer_bytes(const cpu::BlockLayout& layout) {
    return layout.kv_heads * layout.head_bytes();
  }

  const cpu::BlockLayout& layout() const { return layout_; }
  /// A layer's keys and values of all blocks.
  Slice layer(std::size_t index) const { return *layers_[index]; }

  void copy(std::uint32_t source, std::uint32_t target);
  void read(std::uint32_t block, std::span<std::byte> target) const;
  void write(std::uint32_t block, std::span<const std::byte> source);

 private:
  std::uint64_t layer_bytes() const { return layer_bytes(layout_); }
  Slice part(std::size_t layer, std::uint32_t block) const {
    return {*layers_[layer], block * layer_bytes(), layer_bytes()};
  }
  Slice staged(std::size_t layer) const { return {*staging_, layer * layer_bytes(), layer_bytes()}; }

  Device* device_ = nullptr;
  cpu::BlockLayout layout_;
  std::vector<std::unique_ptr<Buffer>> layers_;
  std::unique_ptr<Buffer> staging_;  // one block on its way out or in
};

}  // namespace inferno::gpu
