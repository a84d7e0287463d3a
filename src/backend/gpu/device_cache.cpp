#include "backend/gpu/device_cache.hpp"

#include <cstring>
#include <fmt/format.h>

namespace inferno::gpu {

DeviceCache::DeviceCache(Device& device, const ModelConfig& config, std::uint32_t block_size,
                         std::uint32_t blocks)
    : device_(&device), layout_(config, block_size) {
  const std::uint64_t bytes = layer_bytes() * blocks;
  if (const std::uint64_t limit = device.capabilities().max_range; bytes > limit) {
    throw Error(
        fmt::format("a layer's cache of {} blocks of {} positions takes {} bytes, but {} binds at most {}; "
                    "ask for a shorter context or fewer blocks",
                    blocks, block_size, bytes, device.capabilities().name, limit));
  }
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) {
    layers_.push_back(device.create_buffer(bytes, Memory::device, "the key/value cache"));
  }
  staging_ = device.create_buffer(layout_.block_bytes(), Memory::readback, "moving cache blocks");
}

void DeviceCache::copy(std::uint32_t source, std::uint32_t target) {
  device_->run_once([&](Recorder& recorder) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      recorder.copy(part(layer, source), part(layer, target));
    }
  });
}

void DeviceCache::read(std::uint32_t block, std::span<std::byte> target) const {
  device_->run_once([&](Recorder& recorder) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      recorder.copy(part(layer, block), staged(layer));
    }
  });
  device_->read(*staging_, target);
}

void DeviceCache::write(std::uint32_t block, std::span<const std::byte> source) {
  std::memcpy(staging_->mapped().data(), source.data(), source.size());
  device_->run_once([&](Recorder& recorder) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      recorder.copy(staged(layer), part(layer, block));
    }
  });
}

}  // namespace inferno::gpu
