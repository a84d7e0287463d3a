#pragma once

#include "backend/gpu/device.hpp"
#include "backend/vulkan/functions.hpp"
#include "backend/vulkan/handle.hpp"

namespace inferno::vulkan {

/// A VkBuffer with memory of its own, mapped for good where it can be.
class VulkanBuffer : public gpu::Buffer {
 public:
  VulkanBuffer(Handle<VkDeviceMemory> memory, Handle<VkBuffer> buffer, std::uint64_t bytes, std::byte* mapped)
      : memory_(std::move(memory)), buffer_(std::move(buffer)), bytes_(bytes), mapped_(mapped) {}

  std::uint64_t bytes() const override { return bytes_; }
  std::span<std::byte> mapped() const override {
    return {mapped_, mapped_ == nullptr ? 0 : static_cast<std::size_t>(bytes_)};
  }
  VkBuffer get() const { return buffer_.get(); }

 private:
  Handle<VkDeviceMemory> memory_;  // outlives the buffer
  Handle<VkBuffer> buffer_;
  std::uint64_t bytes_;
  std::byte* mapped_;
};

/// The VkBuffer of a slice, which was made by a Vulkan device.
inline VkBuffer handle_of(const gpu::Slice& slice) {
  return static_cast<const VulkanBuffer*>(slice.buffer)->get();
}

}  // namespace inferno::vulkan
