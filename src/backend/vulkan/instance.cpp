#include "backend/vulkan/instance.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fmt/format.h>

#include <inferno/error.hpp>

#include "backend/vulkan/open_device.hpp"
#include "backend/vulkan/result.hpp"
#include "platform/log.hpp"

namespace inferno::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
constexpr std::uint32_t kVersion = VK_API_VERSION_1_2;

std::atomic<std::uint64_t> messages = 0;  // a driver may report from a thread of its own

/// The first instance that nobody needed any more, kept to the end of the process. Without any the loader
/// unloads the drivers, and NVIDIA's, loaded about twenty times, is not found the next time.
std::atomic<VkInstance> kept = nullptr;

int rank(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 3;
    default:
      return 2;
  }
}

bool has_extension(const GlobalFunctions& global, const char* name) {
  std::uint32_t count = 0;
  check(global.instance_extensions(nullptr, &count, nullptr), "listing the instance's extensions");
  std::vector<VkExtensionProperties> list(count);
  check(global.instance_extensions(nullptr, &count, list.data()), "listing the instance's extensions");
  return std::any_of(list.begin(), list.end(), [name](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, name) == 0;
  });
}

bool has_layer(const GlobalFunctions& global, const char* name) {
  std::uint32_t count = 0;
  check(global.instance_layers(&count, nullptr), "listing the layers");
  std::vector<VkLayerProperties> list(count);
  check(global.instance_layers(&count, list.data()), "listing the layers");
  return std::any_of(list.begin(), list.end(), [name](const VkLayerProperties& layer) {
    return std::strcmp(layer.layerName, name) == 0;
  });
}

}  // namespace

std::uint64_t validation_messages() {
  return messages.load(std::memory_order_relaxed);
}

std::vector<DeviceInfo> order_devices(std::vector<DeviceInfo> found) {
  std::vector<DeviceInfo> devices;
  for (DeviceInfo& device : found) {
    const bool known = std::any_of(devices.begin(), devices.end(),
                                   [&device](const DeviceInfo& other) { return other.uuid == device.uuid; });
    if (!known) devices.push_back(std::move(device));
  }
  std::stable_sort(devices.begin(), devices.end(),
                   [](const DeviceInfo& a, const DeviceInfo& b) { return rank(a.type) < rank(b.type); });
  return devices;
}

DeviceChoice choose_devices(std::span<const DeviceInfo> devices, std::optional<std::uint32_t> wanted,
                            SoftwareDevices software) {
  if (devices.empty()) return {{}, "no Vulkan driver offers a device"};
  if (wanted && *wanted >= devices.size()) {
    return {{},
            fmt::format("there is no device {}; Vulkan offers {} (0 to {})", *wanted, devices.size(),
                        devices.size() - 1)};
  }
  const bool takes_cpus =
      software == SoftwareDevices::always || (wanted && software == SoftwareDevices::by_number);
  DeviceChoice choice;
  const auto look_at = [&](std::size_t index) {
    const DeviceInfo& device = devices[index];
    std::string reason;
    if (device.api_version < kVersion) {
      reason =
          fmt::format("{} speaks Vulkan {}.{}, expected 1.2 or later", device.name,
                      VK_API_VERSION_MAJOR(device.api_version), VK_API_VERSION_MINOR(device.api_version));
    } else if (device.software() && !takes_cpus) {
      reason =
          fmt::format("{}{}, which is a CPU", devices.size() == 1 ? "the only device is " : "", device.name);
      if (software == SoftwareDevices::by_number) {
        reason += fmt::format(" (--device {} takes it all the same)", index);
      }
    } else {
      return choice.order.push_back(index);
    }
    choice.reason += (choice.reason.empty() ? "" : ", ") + reason;
  };
  if (wanted) {
    look_at(*wanted);
  } else {
    for (std::size_t index = 0; index < devices.size(); ++index) look_at(index);
  }
  return choice;
}

Instance::Instance(const InstanceOptions& options) {
  const Loader& loader = Loader::get();
  if (loader.get_instance_function == nullptr) throw Error(loader.reason);
  const GlobalFunctions global(loader.get_instance_function);
  std::uint32_t version = 0;
  check(global.instance_version(&version), "asking for the loader's version");
  if (version < kVersion) {
    throw Error(fmt::format("the Vulkan loader speaks {}.{}; expected 1.2 or later",
                            VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version)));
  }

  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "inferno";
  application.apiVersion = kVersion;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  std::vector<const char*> extensions;
  // MoltenVK shows itself only to those who know that it is not all of Vulkan.
  if (has_extension(global, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }

  const VkValidationFeatureEnableEXT synchronization =
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT features{};
  VkDebugUtilsMessengerCreateInfoEXT messenger{};
  if (options.validation) {
    if (!has_layer(global, kValidationLayer)) {
      throw Error(
          fmt::format("Vulkan validation was asked for, but {} is not installed "
                      "(Debian: vulkan-validationlayers)",
                      kValidationLayer));
    }
    features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    features.enabledValidationFeatureCount = 1;
    features.pEnabledValidationFeatures = &synchronization;
    messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType =
        VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT;
    messenger.pfnUserCallback = on_message;
    features.pNext = &messenger;  // so that creating and destroying the instance are watched, too
    info.pNext = &features;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &kValidationLayer;
    extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  }
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  const VkResult result = global.create_instance(&info, nullptr, &instance_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) throw Error("there is a Vulkan loader here, but no driver");
  check(result, "vkCreateInstance");
  functions_ = InstanceFunctions(loader.get_instance_function, instance_);
  if (options.validation) {
    check(functions_.create_messenger(instance_, &messenger, nullptr, &messenger_),
          "vkCreateDebugUtilsMessengerEXT");
  }
  find_devices();
}

Instance::~Instance() {
  if (instance_ == nullptr) return;
  const bool is_watched = messenger_ != VkDebugUtilsMessengerEXT{};  // its end, too
  if (is_watched) functions_.destroy_messenger(instance_, messenger_, nullptr);
  VkInstance none = nullptr;
  if (is_watched || !kept.compare_exchange_strong(none, instance_))
    functions_.destroy_instance(instance_, nullptr);
}

void Instance::find_devices() {
  std::uint32_t count = 0;
  const VkResult result = functions_.physical_devices(instance_, &count, nullptr);
  if (result == VK_ERROR_INITIALIZATION_FAILED) return;  // what some loaders say where there is no driver
  check(result, "vkEnumeratePhysicalDevices");
  std::vector<VkPhysicalDevice> handles(count);
  check(functions_.physical_devices(instance_, &count, handles.data()), "vkEnumeratePhysicalDevices");
  for (VkPhysicalDevice handle : handles) {
    VkPhysicalDeviceIDProperties ids{};
    ids.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &ids;
    functions_.properties(handle, &properties);
    DeviceInfo device;
    device.handle = handle;
    device.name = properties.properties.deviceName;
    device.type = properties.properties.deviceType;
    device.api_version = properties.properties.apiVersion;
    std::copy(std::begin(ids.deviceUUID), std::end(ids.deviceUUID), device.uuid.begin());
    devices_.push_back(std::move(device));
  }
  devices_ = order_devices(std::move(devices_));
}

VkBool32 Instance::on_message(VkDebugUtilsMessageSeverityFlagBitsEXT /*severity*/,
                              VkDebugUtilsMessageTypeFlagsEXT type,
                              const VkDebugUtilsMessengerCallbackDataEXT* data, void* /*user*/) {
  // The loader's own remarks (a driver that could not be opened) are not about what this program does.
  if ((type & VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT) == 0) return VK_FALSE;
  messages.fetch_add(1, std::memory_order_relaxed);
  log().error("Vulkan validation: {}", data->pMessage);
  return VK_FALSE;
}

}  // namespace inferno::vulkan
