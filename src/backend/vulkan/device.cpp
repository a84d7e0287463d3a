#include "backend/vulkan/device.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <vector>

#include "backend/vulkan/buffer.hpp"
#include "backend/vulkan/result.hpp"
#include "platform/fault.hpp"
#include "platform/log.hpp"

namespace inferno::vulkan {
namespace {

/// How long `wait` looks before it sleeps: longer than a decode step of a small model.
constexpr std::chrono::milliseconds kSpinTime{3};
constexpr std::uint64_t kStagingBytes = std::uint64_t{32} << 20U;
/// Every kernel has workgroups of at most this many threads and bytes of shared memory (gpu/kernels.hpp).
constexpr std::uint32_t kLeastThreads = 256;
constexpr std::uint32_t kLeastSharedBytes = 32768;

bool has_extension(const std::vector<VkExtensionProperties>& list, const char* name) {
  return std::any_of(list.begin(), list.end(), [name](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, name) == 0;
  });
}

}  // namespace

VulkanDevice::VulkanDevice(std::shared_ptr<const Instance> instance, std::size_t index,
                           const DeviceOptions& options)
    : instance_(std::move(instance)) {
  const DeviceInfo& info = instance_->devices()[index];
  physical_ = info.handle;
  read_limits(info, options);
  open(info, options);
  capabilities_.memory_bytes = memory_types_.device_bytes();
  capabilities_.unified_memory = memory_types_.is_unified();
  pipelines_ = Pipelines(owner_.functions, owner_.device, capabilities_.integer_dot, controls_);
  memories_ =
      std::make_unique<RecordingMemories>(owner_.functions, owner_.device, queue_family_, times_.has_value());

  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo semaphore_info{};
  semaphore_info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  semaphore_info.pNext = &type;
  VkSemaphore semaphore = {};
  check(owner_.functions.create_semaphore(owner_.device, &semaphore_info, nullptr, &semaphore),
        "vkCreateSemaphore");
  timeline_ = {owner_.device, semaphore, owner_.functions.destroy_semaphore};
  // A device that cannot be told may do it all the same.
  capabilities_.keeps_subnormals = controls_.keeps_subnormals || !flushes_subnormals();
}

bool VulkanDevice::has(gpu::Kernel kernel) const {
  const bool merges = kernel == gpu::Kernel::attend_one || kernel == gpu::Kernel::attend_one_128;
  return Pipelines::has(kernel) && (!merges || shares_writes_);
}

/// Whether a float below 2^-126 is lost in an addition.
bool VulkanDevice::flushes_subnormals() {
  constexpr std::uint32_t kSubnormal = 0x00012345U;
  const auto x = create_buffer(sizeof kSubnormal, gpu::Memory::upload, "a first question");
  const auto zero = create_buffer(sizeof kSubnormal, gpu::Memory::upload, "a first question");
  std::memcpy(x->mapped().data(), &kSubnormal, sizeof kSubnormal);
  run_once([&](gpu::Recorder& recorder) {
    recorder.dispatch(gpu::Kernel::add, {*x, *zero}, gpu::AddConstants{1, 1}, {});
  });
  std::uint32_t sum = 0;
  read(*x, std::as_writable_bytes(std::span(&sum, 1)));
  counters_ = {};
  return sum != kSubnormal;
}

VulkanDevice::~VulkanDevice() {
  if (owner_.device != nullptr) owner_.functions.wait_idle(owner_.device);
  if (!times_) return;
  if (const std::string table = times_->table(); !table.empty()) {
    log().info("time on {} by kernel:\n{}", capabilities_.name, table);
  }
}

void VulkanDevice::read_limits(const DeviceInfo& info, const DeviceOptions& options) {
  const InstanceFunctions& functions = instance_->functions();
  VkPhysicalDeviceShaderIntegerDotProductProperties dot{};
  dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES;
  VkPhysicalDeviceSubgroupProperties subgroup{};
  subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
  subgroup.pNext = &dot;
  VkPhysicalDeviceFloatControlsProperties floats{};
  floats.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
  dot.pNext = &floats;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &subgroup;
  functions.properties(physical_, &properties);
  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  // Where widths cannot be told apart, all would have to be spoken of; no such device offers anything.
  controls_.keeps_subnormals =
      floats.shaderDenormPreserveFloat32 == VK_TRUE &&
      floats.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  controls_.keeps_special = floats.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE;
  controls_.rounds_to_nearest = floats.shaderRoundingModeRTEFloat32 == VK_TRUE &&
                                floats.roundingModeIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;

  VkPhysicalDeviceShaderIntegerDotProductFeatures dot_feature{};
  dot_feature.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &dot_feature;
  // Asked for as a sign that workgroups can order their writes between them; Metal, and so MoltenVK, cannot.
  // The kernel that does so says `coherent`, which is part of Vulkan without this feature: it is not enabled.
  VkPhysicalDeviceVulkanMemoryModelFeatures memory_model{};
  memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES;
  dot_feature.pNext = &memory_model;
  functions.features(physical_, &features);
  dot_supported_ = dot_feature.shaderIntegerDotProduct == VK_TRUE;

  capabilities_.name = info.name;
  capabilities_.max_range =
      std::min<std::uint64_t>(limits.maxStorageBufferRange, options.max_range.value_or(UINT64_MAX));
  capabilities_.max_groups = std::min({limits.maxComputeWorkGroupCount[0], limits.maxComputeWorkGroupCount[1],
                                       limits.maxComputeWorkGroupCount[2]});
  capabilities_.subgroup_size = subgroup.subgroupSize;
  capabilities_.shared_bytes = limits.maxComputeSharedMemorySize;
  capabilities_.integer_dot =
      dot_supported_ &&
      options.integer_dot.value_or(dot.integerDotProduct4x8BitPackedSignedAccelerated == VK_TRUE);
  shares_writes_ = memory_model.vulkanMemoryModelDeviceScope == VK_TRUE;
  capabilities_.software = info.software();
  if (limits.maxPerStageDescriptorStorageBuffers < gpu::kMaxBindings) {
    throw Error(fmt::format("{} binds {} buffers to a kernel; expected at least {}", info.name,
                            limits.maxPerStageDescriptorStorageBuffers, gpu::kMaxBindings));
  }
  if (limits.maxComputeWorkGroupInvocations < kLeastThreads ||
      limits.maxComputeSharedMemorySize < kLeastSharedBytes) {
    throw Error(
        fmt::format("{} has workgroups of {} threads and {} bytes of shared memory; expected at least {} "
                    "and {}",
                    info.name, limits.maxComputeWorkGroupInvocations, limits.maxComputeSharedMemorySize,
                    kLeastThreads, kLeastSharedBytes));
  }
}

void VulkanDevice::open(const DeviceInfo& info, const DeviceOptions& options) {
  const InstanceFunctions& functions = instance_->functions();
  std::uint32_t count = 0;
  functions.queue_families(physical_, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  functions.queue_families(physical_, &count, families.data());
  const auto family = std::find_if(
      families.begin(), families.end(),
      [](const VkQueueFamilyProperties& queues) { return (queues.queueFlags & VK_QUEUE_COMPUTE_BIT) != 0; });
  if (family == families.end()) throw Error(fmt::format("{} has no queue that computes", info.name));
  queue_family_ = static_cast<std::uint32_t>(family - families.begin());
  if (options.timestamps && family->timestampValidBits == 0) {
    log().warn("{} has no timestamps: kernels are not timed", info.name);
  } else if (options.timestamps) {
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    functions.properties(physical_, &properties);
    times_.emplace(properties.properties.limits.timestampPeriod, family->timestampValidBits);
  }

  check(functions.device_extensions(physical_, nullptr, &count, nullptr), "listing the device's extensions");
  std::vector<VkExtensionProperties> offered(count);
  check(functions.device_extensions(physical_, nullptr, &count, offered.data()),
        "listing the device's extensions");
  std::vector<const char*> extensions;
  has_budget_ = options.memory_budget && has_extension(offered, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (has_budget_) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  const bool dot = capabilities_.integer_dot;
  if (dot) extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  // A device that has this extension must be told that one knows.
  if (has_extension(offered, "VK_KHR_portability_subset")) extensions.push_back("VK_KHR_portability_subset");

  const float priority = 1.0F;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = queue_family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot_feature{};
  dot_feature.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  dot_feature.shaderIntegerDotProduct = VK_TRUE;
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
  timeline.timelineSemaphore = VK_TRUE;
  timeline.pNext = dot ? &dot_feature : nullptr;
  VkDeviceCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  create.pNext = &timeline;
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  create.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  create.ppEnabledExtensionNames = extensions.data();
  VkDevice device = nullptr;
  check(functions.create_device(physical_, &create, nullptr, &device), fmt::format("opening {}", info.name));
  // Until its functions are known the device can only be given back by the one that destroys it.
  owner_.functions.destroy_device =
      reinterpret_cast<PFN_vkDestroyDevice>(functions.get_device_function(device, "vkDestroyDevice"));
  owner_.functions = DeviceFunctions(functions.get_device_function, device);
  owner_.device = device;
  owner_.functions.get_queue(device, queue_family_, 0, &queue_);
  const bool shares_memory = info.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || info.software();
  memory_types_ = MemoryTypes(functions, physical_, shares_memory, has_budget_);
}

std::unique_ptr<gpu::Buffer> VulkanDevice::create_buffer(std::uint64_t bytes, gpu::Memory memory,
                                                         std::string_view what) {
  auto buffer = allocate(std::max<std::uint64_t>((bytes + 3) / 4 * 4, 4), memory, what);
  if (const auto mapped = buffer->mapped(); !mapped.empty()) {
    std::memset(mapped.data(), 0, mapped.size());
  } else {
    run_once([&buffer](gpu::Recorder& recorder) { recorder.fill(*buffer, 0); });
  }
  return buffer;
}

std::unique_ptr<gpu::Buffer> VulkanDevice::allocate(std::uint64_t bytes, gpu::Memory memory,
                                                    std::string_view what) {
  const DeviceFunctions& functions = owner_.functions;
  VkDevice device = owner_.device;
  const auto no_memory = [&](std::string_view why) {
    return Error(fmt::format("{} needs {} bytes for {}, of which {} are free there: {}", capabilities_.name,
                             bytes, what, free_bytes(), why));
  };
  if (fault::hit(fault::kAllocation)) throw no_memory("injected fault alloc");

  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
  VkBuffer buffer = {};
  VkResult result = functions.create_buffer(device, &info, nullptr, &buffer);
  if (result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) throw no_memory(result_name(result));
  check(result, "vkCreateBuffer");
  Handle<VkBuffer> owned_buffer(device, buffer, functions.destroy_buffer);
  VkMemoryRequirements needs{};
  functions.buffer_requirements(device, buffer, &needs);
  const std::uint32_t type = memory_types_.pick(memory, needs.memoryTypeBits);

  VkMemoryAllocateInfo allocation{};
  allocation.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocation.allocationSize = needs.size;
  allocation.memoryTypeIndex = type;
  VkDeviceMemory bytes_of = {};
  result = functions.allocate_memory(device, &allocation, nullptr, &bytes_of);
  if (result != VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) throw no_memory(result_name(result));
  check(result, "vkAllocateMemory");
  Handle<VkDeviceMemory> owned_memory(device, bytes_of, functions.free_memory);
  check(functions.bind_buffer(device, buffer, bytes_of, 0), "vkBindBufferMemory");
  ++counters_.allocations;
  HeldBytes held(held_[memory_types_.heap_of(type)], needs.size);

  void* mapped = nullptr;
  const bool map = memory != gpu::Memory::device || capabilities_.unified_memory;
  if (map && memory_types_.is_mapped(type)) {
    check(functions.map_memory(device, bytes_of, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
  }
  return std::make_unique<VulkanBuffer>(std::move(owned_memory), std::move(owned_buffer), std::move(held),
                                        bytes, static_cast<std::byte*>(mapped));
}

gpu::Buffer& VulkanDevice::staging() {
  if (!staging_) staging_ = allocate(kStagingBytes, gpu::Memory::readback, "copying");
  return *staging_;
}

void VulkanDevice::upload(const gpu::Slice& target, std::span<const std::byte> bytes) {
  if (const auto mapped = target.buffer->mapped(); !mapped.empty()) {
    wait();
    std::memcpy(mapped.data() + target.offset, bytes.data(), bytes.size());
    return;
  }
  for (std::size_t done = 0; done < bytes.size(); done += kStagingBytes) {
    const auto piece = bytes.subspan(done, std::min<std::size_t>(kStagingBytes, bytes.size() - done));
    std::memcpy(staging().mapped().data(), piece.data(), piece.size());
    run_once([&](gpu::Recorder& recorder) {
      recorder.copy({staging(), 0, piece.size()}, {*target.buffer, target.offset + done, piece.size()});
    });
  }
}

void VulkanDevice::read(const gpu::Slice& source, std::span<std::byte> bytes) {
  counters_.bytes_read += bytes.size();
  if (const auto mapped = source.buffer->mapped(); !mapped.empty()) {
    wait();
    std::memcpy(bytes.data(), mapped.data() + source.offset, bytes.size());
    return;
  }
  for (std::size_t done = 0; done < bytes.size(); done += kStagingBytes) {
    const auto piece = bytes.subspan(done, std::min<std::size_t>(kStagingBytes, bytes.size() - done));
    run_once([&](gpu::Recorder& recorder) {
      recorder.copy({*source.buffer, source.offset + done, piece.size()}, {staging(), 0, piece.size()});
    });
    std::memcpy(piece.data(), staging().mapped().data(), piece.size());
  }
}

std::unique_ptr<gpu::Recorder> VulkanDevice::record() {
  return std::make_unique<VulkanRecorder>(owner_.functions, owner_.device, pipelines_, *memories_,
                                          capabilities_);
}

void VulkanDevice::submit(const gpu::Recording& recording, std::uint32_t times) {
  const std::vector<VkCommandBuffer> commands(times,
                                              static_cast<const VulkanRecording&>(recording).commands());
  const std::uint64_t value = submitted_ + 1;
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &value;
  VkSemaphore semaphore = timeline_.get();
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &timeline;
  info.commandBufferCount = times;
  info.pCommandBuffers = commands.data();
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &semaphore;
  check(owner_.functions.queue_submit(queue_, 1, &info, VkFence{}), "vkQueueSubmit");
  submitted_ = value;
  if (times_) stamped_.push_back(&static_cast<const VulkanRecording&>(recording));
  ++counters_.submissions;
  counters_.dispatches += recording.dispatches() * times;
}

/// Looks again and again for a while: being woken takes longer than what is left of a step. A device that is
/// a CPU needs that CPU itself.
bool VulkanDevice::is_done_soon() {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    std::uint64_t value = 0;
    check(owner_.functions.semaphore_value(owner_.device, timeline_.get(), &value),
          "vkGetSemaphoreCounterValue");
    if (value >= submitted_) {
      waited_ = submitted_;
      return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

void VulkanDevice::wait() {
  if (waited_ == submitted_) return;
  ++counters_.waits;
  if (capabilities_.software || !is_done_soon()) {
    wait_for_submitted(std::numeric_limits<std::uint64_t>::max());
    waited_ = submitted_;
  }
  if (times_) collect_times();
}

bool VulkanDevice::wait_for(std::chrono::microseconds most) {
  return waited_ == submitted_ ||
         wait_for_submitted(static_cast<std::uint64_t>(std::chrono::nanoseconds(most).count()));
}

/// Whether it is done by then.
bool VulkanDevice::wait_for_submitted(std::uint64_t nanoseconds) {
  const DeviceFunctions& functions = owner_.functions;
  VkSemaphore semaphore = timeline_.get();
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore;
  info.pValues = &submitted_;
  const VkResult result = functions.wait_semaphores(owner_.device, &info, nanoseconds);
  if (result == VK_TIMEOUT) return false;
  check(result, "vkWaitSemaphores");
  return true;
}

/// Of a recording that ran several times in a row the last one: they share their stamps.
void VulkanDevice::collect_times() {
  std::vector<std::uint64_t> ticks;
  for (const VulkanRecording* recording : stamped_) {
    const Stamps& stamps = recording->stamps();
    ticks.resize(stamps.kernels.size() + 1);
    const std::size_t bytes = ticks.size() * sizeof ticks[0];
    check(owner_.functions.query_results(owner_.device, stamps.pool.get(), 0,
                                         static_cast<std::uint32_t>(ticks.size()), bytes, ticks.data(),
                                         sizeof ticks[0], VK_QUERY_RESULT_64_BIT),
          "vkGetQueryPoolResults");
    times_->add(stamps.kernels, ticks);
  }
  stamped_.clear();
}

}  // namespace inferno::vulkan
