#include "backend/vulkan/functions.hpp"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>
#include <vector>

#include <inferno/error.hpp>

namespace inferno::vulkan {
namespace {

#if defined(__APPLE__)
// MoltenVK can be opened as if it were the loader, where no loader is installed.
constexpr std::array kLoaderNames = {"libvulkan.1.dylib", "/usr/local/lib/libvulkan.1.dylib",
                                     "/opt/homebrew/lib/libvulkan.1.dylib", "libMoltenVK.dylib",
                                     "/opt/homebrew/lib/libMoltenVK.dylib"};
#else
constexpr std::array kLoaderNames = {"libvulkan.so.1", "libvulkan.so"};
#endif

Loader open_loader() {
  Loader loader;
  std::vector<const char*> names(kLoaderNames.begin(), kLoaderNames.end());
  // For loaders and drivers in odd places, MoltenVK among them.
  const char* wanted = std::getenv("INFERNO_VULKAN_LOADER");
  if (wanted != nullptr && *wanted != '\0') names = {wanted};
  for (const char* name : names) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    loader.get_instance_function =
        reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
    if (loader.get_instance_function != nullptr) return loader;
    loader.reason = fmt::format("{} is not a Vulkan loader: it has no vkGetInstanceProcAddr", name);
    return loader;
  }
  loader.reason = fmt::format("there is no Vulkan loader here ({} was not found)", names.front());
  return loader;
}

/// Finds `function` by its name. Throws Error if it is required and missing.
template <typename Function, typename Lookup>
void find(Function& function, const Lookup& lookup, const char* name, bool required = true) {
  function = reinterpret_cast<Function>(lookup(name));
  if (function == nullptr && required) {
    throw Error(fmt::format("the Vulkan loader or driver lacks {}; expected Vulkan 1.2", name));
  }
}

}  // namespace

const Loader& Loader::get() {
  static const Loader loader = open_loader();
  return loader;
}

GlobalFunctions::GlobalFunctions(PFN_vkGetInstanceProcAddr get) {
  const auto lookup = [get](const char* name) { return get(nullptr, name); };
  find(create_instance, lookup, "vkCreateInstance");
  find(instance_version, lookup, "vkEnumerateInstanceVersion");
  find(instance_extensions, lookup, "vkEnumerateInstanceExtensionProperties");
  find(instance_layers, lookup, "vkEnumerateInstanceLayerProperties");
}

InstanceFunctions::InstanceFunctions(PFN_vkGetInstanceProcAddr get, VkInstance instance) {
  const auto lookup = [get, instance](const char* name) { return get(instance, name); };
  find(destroy_instance, lookup, "vkDestroyInstance");
  find(physical_devices, lookup, "vkEnumeratePhysicalDevices");
  find(properties, lookup, "vkGetPhysicalDeviceProperties2");
  find(features, lookup, "vkGetPhysicalDeviceFeatures2");
  find(memory_properties, lookup, "vkGetPhysicalDeviceMemoryProperties2");
  find(queue_families, lookup, "vkGetPhysicalDeviceQueueFamilyProperties");
  find(device_extensions, lookup, "vkEnumerateDeviceExtensionProperties");
  find(create_device, lookup, "vkCreateDevice");
  find(get_device_function, lookup, "vkGetDeviceProcAddr");
  find(create_messenger, lookup, "vkCreateDebugUtilsMessengerEXT", false);
  find(destroy_messenger, lookup, "vkDestroyDebugUtilsMessengerEXT", false);
}

DeviceFunctions::DeviceFunctions(PFN_vkGetDeviceProcAddr get, VkDevice device) {
  const auto lookup = [get, device](const char* name) { return get(device, name); };
  find(destroy_device, lookup, "vkDestroyDevice");
  find(get_queue, lookup, "vkGetDeviceQueue");
  find(wait_idle, lookup, "vkDeviceWaitIdle");
  find(queue_submit, lookup, "vkQueueSubmit");
  find(create_semaphore, lookup, "vkCreateSemaphore");
  find(destroy_semaphore, lookup, "vkDestroySemaphore");
  find(wait_semaphores, lookup, "vkWaitSemaphores");
  find(semaphore_value, lookup, "vkGetSemaphoreCounterValue");
  find(allocate_memory, lookup, "vkAllocateMemory");
  find(free_memory, lookup, "vkFreeMemory");
  find(map_memory, lookup, "vkMapMemory");
  find(create_buffer, lookup, "vkCreateBuffer");
  find(destroy_buffer, lookup, "vkDestroyBuffer");
  find(buffer_requirements, lookup, "vkGetBufferMemoryRequirements");
  find(bind_buffer, lookup, "vkBindBufferMemory");
  find(create_shader, lookup, "vkCreateShaderModule");
  find(destroy_shader, lookup, "vkDestroyShaderModule");
  find(create_set_layout, lookup, "vkCreateDescriptorSetLayout");
  find(destroy_set_layout, lookup, "vkDestroyDescriptorSetLayout");
  find(create_pipeline_layout, lookup, "vkCreatePipelineLayout");
  find(destroy_pipeline_layout, lookup, "vkDestroyPipelineLayout");
  find(create_compute_pipelines, lookup, "vkCreateComputePipelines");
  find(destroy_pipeline, lookup, "vkDestroyPipeline");
  find(create_descriptor_pool, lookup, "vkCreateDescriptorPool");
  find(destroy_descriptor_pool, lookup, "vkDestroyDescriptorPool");
  find(reset_descriptor_pool, lookup, "vkResetDescriptorPool");
  find(allocate_sets, lookup, "vkAllocateDescriptorSets");
  find(update_sets, lookup, "vkUpdateDescriptorSets");
  find(create_command_pool, lookup, "vkCreateCommandPool");
  find(destroy_command_pool, lookup, "vkDestroyCommandPool");
  find(reset_command_pool, lookup, "vkResetCommandPool");
  find(allocate_commands, lookup, "vkAllocateCommandBuffers");
  find(begin_commands, lookup, "vkBeginCommandBuffer");
  find(end_commands, lookup, "vkEndCommandBuffer");
  find(bind_pipeline, lookup, "vkCmdBindPipeline");
  find(bind_sets, lookup, "vkCmdBindDescriptorSets");
  find(push_constants, lookup, "vkCmdPushConstants");
  find(dispatch, lookup, "vkCmdDispatch");
  find(dispatch_indirect, lookup, "vkCmdDispatchIndirect");
  find(pipeline_barrier, lookup, "vkCmdPipelineBarrier");
  find(copy_buffer, lookup, "vkCmdCopyBuffer");
  find(fill_buffer, lookup, "vkCmdFillBuffer");
  find(create_query_pool, lookup, "vkCreateQueryPool");
  find(destroy_query_pool, lookup, "vkDestroyQueryPool");
  find(query_results, lookup, "vkGetQueryPoolResults");
  find(reset_queries, lookup, "vkCmdResetQueryPool");
  find(write_timestamp, lookup, "vkCmdWriteTimestamp");
}

}  // namespace inferno::vulkan
