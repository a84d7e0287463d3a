#include "backend/vulkan/open_device.hpp"

#include <cstdlib>
#include <string_view>

#include "backend/vulkan/device.hpp"
#include "platform/log.hpp"

namespace inferno::vulkan {
namespace {

/// INFERNO_VULKAN_SOFTWARE=1 takes CPUs that pose as GPUs for GPUs: what GPUs go through can be tested on
/// them.
SoftwareDevices software_devices(bool by_number) {
  const char* value = std::getenv("INFERNO_VULKAN_SOFTWARE");
  if (value != nullptr && std::string_view(value) == "1") return SoftwareDevices::always;
  return by_number ? SoftwareDevices::by_number : SoftwareDevices::never;
}

}  // namespace

std::unique_ptr<gpu::Device> open_device(const OpenOptions& options) {
  const auto instance = std::make_shared<const Instance>(InstanceOptions{.validation = options.validation});
  const auto choice = choose_devices(instance->devices(), options.device, software_devices(options.software));
  return open_first(choice, [&](std::size_t index) -> std::unique_ptr<gpu::Device> {
    return std::make_unique<VulkanDevice>(instance, index,
                                          DeviceOptions{.integer_dot = options.integer_dot,
                                                        .timestamps = options.timestamps,
                                                        .memory_budget = options.memory_budget,
                                                        .max_range = options.max_range});
  });
}

DeviceList list_devices() {
  const Instance instance;
  DeviceList list;
  for (const DeviceInfo& device : instance.devices()) {
    list.names.push_back(device.software() ? device.name + ", a CPU" : device.name);
  }
  const auto choice = choose_devices(instance.devices(), std::nullopt, software_devices(true));
  if (choice.order.empty()) {
    list.reason = choice.reason;
  } else {
    list.taken = instance.devices()[choice.order.front()].name;
  }
  return list;
}

}  // namespace inferno::vulkan
