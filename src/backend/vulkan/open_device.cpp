#include "backend/vulkan/open_device.hpp"

#include "backend/vulkan/device.hpp"
#include "platform/log.hpp"

namespace inferno::vulkan {
namespace {

std::size_t choose(const Instance& instance, std::optional<std::uint32_t> device) {
  const DeviceChoice choice = choose_device(instance.devices(), device);
  if (!choice.index) throw Error(choice.reason);
  return *choice.index;
}

}  // namespace

std::unique_ptr<gpu::Device> open_device(const OpenOptions& options) {
  auto instance = std::make_shared<const Instance>(InstanceOptions{.validation = options.validation});
  const std::size_t index = choose(*instance, options.device);
  return std::make_unique<VulkanDevice>(std::move(instance), index,
                                        DeviceOptions{.integer_dot = options.integer_dot,
                                                      .timestamps = options.timestamps,
                                                      .max_range = options.max_range});
}

std::string device_name(std::optional<std::uint32_t> device) {
  const Instance instance;
  return instance.devices()[choose(instance, device)].name;
}

std::vector<std::string> device_names() {
  const Instance instance;
  std::vector<std::string> names;
  for (const DeviceInfo& device : instance.devices()) names.push_back(device.name);
  return names;
}

}  // namespace inferno::vulkan
