#pragma once

#define VK_NO_PROTOTYPES  // functions are found at run time: there may be no loader on this machine
#include <string>
#include <vulkan/vulkan.h>

namespace inferno::vulkan {

/// The loader, opened at run time and kept open: closing it while drivers have threads crashes some of them.
struct Loader {
  PFN_vkGetInstanceProcAddr get_instance_function = nullptr;
  std::string reason;  ///< why there is none; empty if there is

  /// The loader of this machine; looks for it once.
  static const Loader& get();
};

/// Functions that need no instance.
struct GlobalFunctions {
  PFN_vkCreateInstance create_instance = nullptr;
  PFN_vkEnumerateInstanceVersion instance_version = nullptr;
  PFN_vkEnumerateInstanceExtensionProperties instance_extensions = nullptr;
  PFN_vkEnumerateInstanceLayerProperties instance_layers = nullptr;

  explicit GlobalFunctions(PFN_vkGetInstanceProcAddr get);
};

/// Functions of an instance and its physical devices.
struct InstanceFunctions {
  PFN_vkDestroyInstance destroy_instance = nullptr;
  PFN_vkEnumeratePhysicalDevices physical_devices = nullptr;
  PFN_vkGetPhysicalDeviceProperties2 properties = nullptr;
  PFN_vkGetPhysicalDeviceFeatures2 features = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties2 memory_properties = nullptr;
  PFN_vkGetPhysicalDeviceQueueFamilyProperties queue_families = nullptr;
  PFN_vkEnumerateDeviceExtensionProperties device_extensions = nullptr;
  PFN_vkCreateDevice create_device = nullptr;
  PFN_vkGetDeviceProcAddr get_device_function = nullptr;
  PFN_vkCreateDebugUtilsMessengerEXT create_messenger = nullptr;    // nullptr without the extension
  PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger = nullptr;  // likewise

  InstanceFunctions() = default;
  InstanceFunctions(PFN_vkGetInstanceProcAddr get, VkInstance instance);
};

/// Functions of a device.
struct DeviceFunctions {
  PFN_vkDestroyDevice destroy_device = nullptr;
  PFN_vkGetDeviceQueue get_queue = nullptr;
  PFN_vkDeviceWaitIdle wait_idle = nullptr;
  PFN_vkQueueSubmit queue_submit = nullptr;
  PFN_vkCreateSemaphore create_semaphore = nullptr;
  PFN_vkDestroySemaphore destroy_semaphore = nullptr;
  PFN_vkWaitSemaphores wait_semaphores = nullptr;
  PFN_vkGetSemaphoreCounterValue semaphore_value = nullptr;
  PFN_vkAllocateMemory allocate_memory = nullptr;
  PFN_vkFreeMemory free_memory = nullptr;
  PFN_vkMapMemory map_memory = nullptr;
  PFN_vkCreateBuffer create_buffer = nullptr;
  PFN_vkDestroyBuffer destroy_buffer = nullptr;
  PFN_vkGetBufferMemoryRequirements buffer_requirements = nullptr;
  PFN_vkBindBufferMemory bind_buffer = nullptr;
  PFN_vkCreateShaderModule create_shader = nullptr;
  PFN_vkDestroyShaderModule destroy_shader = nullptr;
  PFN_vkCreateDescriptorSetLayout create_set_layout = nullptr;
  PFN_vkDestroyDescriptorSetLayout destroy_set_layout = nullptr;
  PFN_vkCreatePipelineLayout create_pipeline_layout = nullptr;
  PFN_vkDestroyPipelineLayout destroy_pipeline_layout = nullptr;
  PFN_vkCreateComputePipelines create_compute_pipelines = nullptr;
  PFN_vkDestroyPipeline destroy_pipeline = nullptr;
  PFN_vkCreateDescriptorPool create_descriptor_pool = nullptr;
  PFN_vkDestroyDescriptorPool destroy_descriptor_pool = nullptr;
  PFN_vkResetDescriptorPool reset_descriptor_pool = nullptr;
  PFN_vkAllocateDescriptorSets allocate_sets = nullptr;
  PFN_vkUpdateDescriptorSets update_sets = nullptr;
  PFN_vkCreateCommandPool create_command_pool = nullptr;
  PFN_vkDestroyCommandPool destroy_command_pool = nullptr;
  PFN_vkResetCommandPool reset_command_pool = nullptr;
  PFN_vkAllocateCommandBuffers allocate_commands = nullptr;
  PFN_vkBeginCommandBuffer begin_commands = nullptr;
  PFN_vkEndCommandBuffer end_commands = nullptr;
  PFN_vkCmdBindPipeline bind_pipeline = nullptr;
  PFN_vkCmdBindDescriptorSets bind_sets = nullptr;
  PFN_vkCmdPushConstants push_constants = nullptr;
  PFN_vkCmdDispatch dispatch = nullptr;
  PFN_vkCmdDispatchIndirect dispatch_indirect = nullptr;
  PFN_vkCmdPipelineBarrier pipeline_barrier = nullptr;
  PFN_vkCmdCopyBuffer copy_buffer = nullptr;
  PFN_vkCmdFillBuffer fill_buffer = nullptr;
  PFN_vkCreateQueryPool create_query_pool = nullptr;
  PFN_vkDestroyQueryPool destroy_query_pool = nullptr;
  PFN_vkGetQueryPoolResults query_results = nullptr;
  PFN_vkCmdResetQueryPool reset_queries = nullptr;
  PFN_vkCmdWriteTimestamp write_timestamp = nullptr;

  DeviceFunctions() = default;
  DeviceFunctions(PFN_vkGetDeviceProcAddr get, VkDevice device);
};

}  // namespace inferno::vulkan
