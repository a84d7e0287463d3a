#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inferno/error.hpp>

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

/// Whether a CPU that poses as a GPU may be taken.
enum class SoftwareDevices : std::uint8_t {
  never,      ///< for whoever wants a GPU, or what is fastest
  by_number,  ///< if it is the number asked for
  always      ///< as if it was a GPU: for tests
};

/// Devices of `devices` (ordered) that can be opened, the best first, and why others cannot.
struct DeviceChoice {
  std::vector<std::size_t> order;
  std::string reason;  ///< empty if there is none of those
};

/// `wanted`: what the user asked for, nothing else is in the order then.
DeviceChoice choose_devices(std::span<const DeviceInfo> devices, std::optional<std::uint32_t> wanted,
                            SoftwareDevices software = SoftwareDevices::by_number);

/// What `open(index)` gives for the first device of a choice for which it throws no Error. Throws Error with
/// the reasons of all if there is none.
template <typename Open>
auto open_first(const DeviceChoice& choice, const Open& open) {
  std::string reasons = choice.reason;
  for (const std::size_t index : choice.order) {
    try {
      return open(index);
    } catch (const Error& error) {
      reasons += (reasons.empty() ? "" : ", ") + std::string(error.what());
    }
  }
  throw Error(reasons);
}

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
