#pragma once

#include <utility>

#include "backend/vulkan/functions.hpp"

namespace inferno::vulkan {

/// Owns an object of a device: destroys it at the end.
template <typename Object>
class Handle {
 public:
  using Destroy = void(VKAPI_PTR*)(VkDevice, Object, const VkAllocationCallbacks*);

  Handle() = default;
  Handle(VkDevice device, Object object, Destroy destroy)
      : device_(device), object_(object), destroy_(destroy) {}
  Handle(Handle&& other) noexcept
      : device_(other.device_), object_(std::exchange(other.object_, Object{})), destroy_(other.destroy_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(object_, other.object_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (object_ != Object{}) destroy_(device_, object_, nullptr);
  }

  Object get() const { return object_; }
  explicit operator bool() const { return object_ != Object{}; }

 private:
  VkDevice device_ = nullptr;
  Object object_ = {};
  Destroy destroy_ = nullptr;
};

}  // namespace inferno::vulkan
