#include "backend/vulkan/memory.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <span>

#include <inferno/error.hpp>

namespace inferno::vulkan {
namespace {

constexpr VkMemoryPropertyFlags kDevice = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kHost =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

/// What memory of a kind should have, the best first.
std::span<const VkMemoryPropertyFlags> wishes(gpu::Memory memory, bool unified) {
  static constexpr std::array<VkMemoryPropertyFlags, 3> kUnified = {
      kDevice | kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, kDevice | kHost, kDevice};
  // Not mapped although some of it could be: what is mapped of a card's memory can be a small window.
  static constexpr std::array<VkMemoryPropertyFlags, 2> kApart = {kDevice, 0};
  // Small things that kernels read in every step are best on the card, written across the bus once.
  static constexpr std::array<VkMemoryPropertyFlags, 2> kUpload = {kDevice | kHost, kHost};
  static constexpr std::array<VkMemoryPropertyFlags, 2> kReadback = {
      kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, kHost};
  switch (memory) {
    case gpu::Memory::upload:
      return kUpload;
    case gpu::Memory::readback:
      return kReadback;
    case gpu::Memory::device:
      break;
  }
  if (unified) return kUnified;
  return kApart;
}

}  // namespace

MemoryTypes::MemoryTypes(const InstanceFunctions& functions, VkPhysicalDevice device, bool shares_memory,
                         bool has_budget)
    : device_(device),
      query_(functions.memory_properties),
      shares_memory_(shares_memory),
      has_budget_(has_budget) {
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  query_(device_, &properties);
  properties_ = properties.memoryProperties;
}

std::uint32_t MemoryTypes::pick(gpu::Memory memory, std::uint32_t allowed) const {
  for (const VkMemoryPropertyFlags wish : wishes(memory, is_unified())) {
    for (std::uint32_t type = 0; type < properties_.memoryTypeCount; ++type) {
      const bool fits = (properties_.memoryTypes[type].propertyFlags & wish) == wish;
      if (fits && (allowed >> type & 1U) != 0) return type;
    }
  }
  throw Error("the Vulkan driver offers no memory that suits a buffer");
}

bool MemoryTypes::is_mapped(std::uint32_t type) const {
  return (properties_.memoryTypes[type].propertyFlags & kHost) == kHost;
}

bool MemoryTypes::is_unified() const {
  if (!shares_memory_) return false;
  for (std::uint32_t type = 0; type < properties_.memoryTypeCount; ++type) {
    if ((properties_.memoryTypes[type].propertyFlags & (kDevice | kHost)) == (kDevice | kHost)) return true;
  }
  return false;
}

std::uint32_t MemoryTypes::device_heap() const {
  std::uint32_t best = 0;
  for (std::uint32_t heap = 1; heap < properties_.memoryHeapCount; ++heap) {
    const bool device = (properties_.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    const bool best_is = (properties_.memoryHeaps[best].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
    if (device && (!best_is || properties_.memoryHeaps[heap].size > properties_.memoryHeaps[best].size)) {
      best = heap;
    }
  }
  return best;
}

std::uint64_t MemoryTypes::device_bytes() const {
  return properties_.memoryHeaps[device_heap()].size;
}

std::uint64_t MemoryTypes::free_bytes(const HeapBytes& held) const {
  if (!has_budget_) return device_bytes() - std::min(device_bytes(), held[device_heap()]);
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  VkPhysicalDeviceMemoryProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  properties.pNext = &budget;
  query_(device_, &properties);
  const std::uint32_t heap = device_heap();
  const std::uint64_t used = budget.heapUsage[heap];
  return used < budget.heapBudget[heap] ? budget.heapBudget[heap] - used : 0;
}

}  // namespace inferno::vulkan
