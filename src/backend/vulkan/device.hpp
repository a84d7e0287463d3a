#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backend/gpu/device.hpp"
#include "backend/vulkan/float_controls.hpp"
#include "backend/vulkan/functions.hpp"
#include "backend/vulkan/instance.hpp"
#include "backend/vulkan/kernel_times.hpp"
#include "backend/vulkan/memory.hpp"
#include "backend/vulkan/pipelines.hpp"
#include "backend/vulkan/recorder.hpp"

namespace inferno::vulkan {

struct DeviceOptions {
  /// Use kernels with integer dot products: by default where the device has them in hardware. On a device
  /// that cannot run them at all they are not used.
  std::optional<bool> integer_dot = {};
  /// Time every kernel; what was found is logged when the device is closed.
  bool timestamps = false;
  /// Ask the driver how much memory is free, where it can say.
  bool memory_budget = true;
  /// Pretend that the device binds no more than this at once.
  std::optional<std::uint64_t> max_range = {};
};

/// A Vulkan device, opened.
class VulkanDevice final : public gpu::Device {
 public:
  /// Opens device `index` of `instance`. Throws Error if it lacks what every kernel needs, or does not open.
  VulkanDevice(std::shared_ptr<const Instance> instance, std::size_t index,
               const DeviceOptions& options = {});
  ~VulkanDevice() override;

  const gpu::DeviceCapabilities& capabilities() const override { return capabilities_; }
  const gpu::DeviceCounters& counters() const override { return counters_; }
  std::uint64_t free_bytes() const override { return memory_types_.free_bytes(held_); }
  std::unique_ptr<gpu::Buffer> create_buffer(std::uint64_t bytes, gpu::Memory memory,
                                             std::string_view what) override;
  void upload(const gpu::Slice& target, std::span<const std::byte> bytes) override;
  void read(const gpu::Slice& source, std::span<std::byte> bytes) override;
  bool has(gpu::Kernel kernel) const override;
  void prepare(gpu::Kernel kernel) override { pipelines_.get(kernel); }
  std::unique_ptr<gpu::Recorder> record() override;
  void submit(const gpu::Recording& recording, std::uint32_t times) override;
  void wait() override;
  bool wait_for(std::chrono::microseconds most) override;

 private:
  bool flushes_subnormals();
  void read_limits(const DeviceInfo& info, const DeviceOptions& options);
  void open(const DeviceInfo& info, const DeviceOptions& options);
  std::unique_ptr<gpu::Buffer> allocate(std::uint64_t bytes, gpu::Memory memory, std::string_view what);
  gpu::Buffer& staging();
  bool is_done_soon();
  bool wait_for_submitted(std::uint64_t nanoseconds);
  void collect_times();

  std::shared_ptr<const Instance> instance_;
  VkPhysicalDevice physical_ = nullptr;
  bool dot_supported_ = false;
  bool has_budget_ = false;
  bool shares_writes_ = false;  // workgroups of a dispatch see what others wrote before an atomic they saw
  FloatControls controls_;
  gpu::DeviceCapabilities capabilities_;
  gpu::DeviceCounters counters_;
  MemoryTypes memory_types_;
  HeapBytes held_ = {};  // outlives what is counted in it

  // Destroyed after everything that was made of it.
  struct DeviceOwner {
    DeviceFunctions functions;
    VkDevice device = nullptr;
    ~DeviceOwner() {
      if (device == nullptr) return;
      functions.wait_idle(device);
      functions.destroy_device(device, nullptr);
    }
  };
  DeviceOwner owner_;
  VkQueue queue_ = nullptr;
  std::uint32_t queue_family_ = 0;
  Handle<VkSemaphore> timeline_;
  std::uint64_t submitted_ = 0;  // the timeline's value when everything submitted is done
  std::uint64_t waited_ = 0;     // the value that was waited for
  Pipelines pipelines_;
  std::unique_ptr<RecordingMemories> memories_;
  std::unique_ptr<gpu::Buffer> staging_;  // made when first needed
  std::optional<KernelTimes> times_;
  std::vector<const VulkanRecording*> stamped_;  // submitted and not waited for
};

}  // namespace inferno::vulkan
