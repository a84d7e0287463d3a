#pragma once

#include <memory>
#include <vector>

#include "backend/gpu/device.hpp"
#include "backend/vulkan/functions.hpp"
#include "backend/vulkan/handle.hpp"
#include "backend/vulkan/kernel_times.hpp"
#include "backend/vulkan/pipelines.hpp"

namespace inferno::vulkan {

/// What a recording lives in: a command buffer and the descriptor sets it binds. Used again for later
/// recordings.
struct RecordingMemory {
  Handle<VkCommandPool> command_pool;
  VkCommandBuffer commands = nullptr;
  std::vector<Handle<VkDescriptorPool>> set_pools;
  Stamps stamps;  // no pool unless kernels are timed
};

/// Where recordings get their memory and give it back to.
class RecordingMemories {
 public:
  /// `stamps`: recordings are to be stamped.
  RecordingMemories(const DeviceFunctions& functions, VkDevice device, std::uint32_t queue_family,
                    bool stamps)
      : functions_(functions), device_(device), queue_family_(queue_family), stamps_(stamps) {}

  std::unique_ptr<RecordingMemory> take();
  void give_back(std::unique_ptr<RecordingMemory> memory) { spare_.push_back(std::move(memory)); }
  Handle<VkDescriptorPool> make_set_pool() const;

 private:
  Handle<VkQueryPool> make_stamp_pool() const;

  const DeviceFunctions& functions_;
  VkDevice device_;
  std::uint32_t queue_family_;
  bool stamps_;
  std::vector<std::unique_ptr<RecordingMemory>> spare_;
};

class VulkanRecording : public gpu::Recording {
 public:
  VulkanRecording(std::unique_ptr<RecordingMemory> memory, RecordingMemories& owner, std::uint64_t dispatches)
      : memory_(std::move(memory)), owner_(owner), dispatches_(dispatches) {}
  ~VulkanRecording() override { owner_.give_back(std::move(memory_)); }

  std::uint64_t dispatches() const override { return dispatches_; }
  VkCommandBuffer commands() const { return memory_->commands; }
  const Stamps& stamps() const { return memory_->stamps; }

 private:
  std::unique_ptr<RecordingMemory> memory_;
  RecordingMemories& owner_;
  std::uint64_t dispatches_;
};

class VulkanRecorder final : public gpu::Recorder {
 public:
  VulkanRecorder(const DeviceFunctions& functions, VkDevice device, Pipelines& pipelines,
                 RecordingMemories& memories, const gpu::DeviceCapabilities& capabilities);
  ~VulkanRecorder() override;

  using gpu::Recorder::dispatch;
  using gpu::Recorder::dispatch_indirect;
  void dispatch(gpu::Kernel kernel, std::span<const gpu::Slice> buffers, std::span<const std::byte> constants,
                gpu::Grid grid) override;
  void dispatch_indirect(gpu::Kernel kernel, std::span<const gpu::Slice> buffers,
                         std::span<const std::byte> constants, gpu::Slice grid) override;
  void barrier() override;
  void grid_barrier() override;
  void copy(const gpu::Slice& source, const gpu::Slice& target) override;
  void fill(const gpu::Slice& target, std::uint32_t word) override;
  std::unique_ptr<gpu::Recording> finish() override;

 private:
  void bind(gpu::Kernel kernel, std::span<const gpu::Slice> buffers, std::span<const std::byte> constants);
  void check_slices(gpu::Kernel kernel, std::span<const gpu::Slice> buffers,
                    std::span<const std::byte> constants) const;
  void stamp(gpu::Kernel kernel);
  VkDescriptorSet allocate_set(VkDescriptorSetLayout layout);
  void barrier_between(VkPipelineStageFlags before, VkPipelineStageFlags after, VkAccessFlags access);

  const DeviceFunctions& functions_;
  VkDevice device_;
  Pipelines& pipelines_;
  RecordingMemories& memories_;
  const gpu::DeviceCapabilities& capabilities_;
  std::unique_ptr<RecordingMemory> memory_;
  VkPipeline bound_ = {};
  std::size_t pool_ = 0;            // of memory_->set_pools, the one that sets come from
  std::uint32_t sets_in_pool_ = 0;  // taken from it
  std::uint64_t dispatches_ = 0;
};

}  // namespace inferno::vulkan
