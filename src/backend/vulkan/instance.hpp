#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/vulkan/functions.hpp"

namespace inferno::vulkan {

/// What is known of a physical device before it is opened.
struct DeviceInfo {
  VkPhysicalDevice handle = nullptr;
  std::string name;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  std::array<std::uint8_t, VK_UUID_SIZE> uuid = {};
  std::uint32_t api_version = 0;

  /// A CPU that poses as a GPU, such as Mesa's lavapipe.
  bool software() const { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
};

/// The order in which devices are numbered: discrete GPUs, integrated ones, others, CPUs last; each device
/// once even if several drivers offer it (the first one is taken).
std::vector<DeviceInfo> order_devices(std::vector<DeviceInfo> found);

/// A device of `devices` (ordered), or why there is none.
struct DeviceChoice {
  std::optional<std::size_t> index;
  std::string reason;
};

/// `wanted`: what the user asked for. Without it the first device, but never a CPU: whoever asked for nothing
/// wants something faster than the CPU.
DeviceChoice choose_device(std::span<const DeviceInfo> devices, std::optional<std::uint32_t> wanted);

struct InstanceOptions {
  /// With the validation layer (core and synchronization), whose messages are logged and counted.
  bool validation = false;
};

/// A connection to the loader and the drivers that it finds.
class Instance {
 public:
  /// Throws Error: no loader, no driver, a version that is too old, no validation layer though asked for.
  explicit Instance(const InstanceOptions& options = {});
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  ~Instance();

  const InstanceFunctions& functions() const { return functions_; }
  /// Numbered as users number them.
  const std::vector<DeviceInfo>& devices() const { return devices_; }

 private:
  static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                   VkDebugUtilsMessageTypeFlagsEXT type,
                                                   const VkDebugUtilsMessengerCallbackDataEXT* data,
                                                   void* instance);
  void find_devices();

  VkInstance instance_ = nullptr;
  VkDebugUtilsMessengerEXT messenger_ = {};
  InstanceFunctions functions_;
  std::vector<DeviceInfo> devices_;
};

}  // namespace inferno::vulkan
