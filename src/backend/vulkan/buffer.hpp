#pragma once

#include <utility>

#include "backend/gpu/device.hpp"
#include "backend/vulkan/functions.hpp"
#include "backend/vulkan/handle.hpp"

namespace inferno::vulkan {

/// Counts bytes as held while it lives.
class HeldBytes {
 public:
  HeldBytes(std::uint64_t& total, std::uint64_t bytes) : total_(&total), bytes_(bytes) { *total_ += bytes_; }
  HeldBytes(HeldBytes&& other) noexcept : total_(other.total_), bytes_(std::exchange(other.bytes_, 0)) {}
  HeldBytes& operator=(HeldBytes&&) = delete;
  ~HeldBytes() { *total_ -= bytes_; }

 private:
  std::uint64_t* total_;
  std::uint64_t bytes_;
};

/// A VkBuffer with memory of its own, mapped for good where it can be.
class VulkanBuffer : public gpu::Buffer {
 public:
  VulkanBuffer(Handle<VkDeviceMemory> memory, Handle<VkBuffer> buffer, HeldBytes held, std::uint64_t bytes,
               std::byte* mapped)
      : memory_(std::move(memory)),
        buffer_(std::move(buffer)),
        held_(std::move(held)),
        bytes_(bytes),
        mapped_(mapped) {}

  std::uint64_t bytes() const override { return bytes_; }
  std::span<std::byte> mapped() const override {
    return {mapped_, mapped_ == nullptr ? 0 : static_cast<std::size_t>(bytes_)};
  }
  VkBuffer get() const { return buffer_.get(); }

 private:
  Handle<VkDeviceMemory> memory_;  // outlives the buffer
  Handle<VkBuffer> buffer_;
  HeldBytes held_;
  std::uint64_t bytes_;
  std::byte* mapped_;
};

/// The VkBuffer of a slice, which was made by a Vulkan device.
inline VkBuffer handle_of(const gpu::Slice& slice) {
  return static_cast<const VulkanBuffer*>(slice.buffer)->get();
}

}  // namespace inferno::vulkan
