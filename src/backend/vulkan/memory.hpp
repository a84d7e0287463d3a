#pragma once

#include <array>
#include <cstdint>

#include "backend/gpu/device.hpp"
#include "backend/vulkan/functions.hpp"

namespace inferno::vulkan {

/// Bytes by heap.
using HeapBytes = std::array<std::uint64_t, VK_MAX_MEMORY_HEAPS>;

/// The kinds of memory of a physical device.
class MemoryTypes {
 public:
  MemoryTypes() = default;
  /// `shares_memory`: the device is part of the processor and has no memory of its own.
  MemoryTypes(const InstanceFunctions& functions, VkPhysicalDevice device, bool shares_memory,
              bool has_budget);

  /// The type for memory of this kind, out of those that `allowed` has a bit for. Throws Error if there is
  /// none.
  std::uint32_t pick(gpu::Memory memory, std::uint32_t allowed) const;
  /// Whether the host can reach memory of this type.
  bool is_mapped(std::uint32_t type) const;
  /// Whether all memory is the host's own, too: an integrated GPU, a CPU.
  bool is_unified() const;
  /// Bytes of the largest heap of device memory.
  std::uint64_t device_bytes() const;
  /// Of it those that are free now; if the driver does not say, those that this device does not hold itself.
  std::uint64_t free_bytes(const HeapBytes& held) const;
  std::uint32_t heap_of(std::uint32_t type) const { return properties_.memoryTypes[type].heapIndex; }

 private:
  std::uint32_t device_heap() const;

  VkPhysicalDevice device_ = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties2 query_ = nullptr;
  bool shares_memory_ = false;
  bool has_budget_ = false;
  VkPhysicalDeviceMemoryProperties properties_ = {};
};

}  // namespace inferno::vulkan
