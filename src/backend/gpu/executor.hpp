#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/gpu/device.hpp"
#include "backend/gpu/device_cache.hpp"
#include "backend/gpu/device_slots.hpp"
#include "backend/gpu/device_weights.hpp"
#include "backend/gpu/encode_step.hpp"
#include "backend/gpu/step_buffers.hpp"
#include "model/loaded_model.hpp"
#include "step/deferred_executor.hpp"
#include "step/device_meter.hpp"

namespace inferno::gpu {

/// Whole steps on a device: recorded once for each shape of step, submitted once per step, waited for once;
/// what comes back is four bytes per chosen token, and logits or hidden states only where they are asked for.
class GpuExecutor : public DeferredExecutor, public OnDevice {
 public:
  /// `name` is the backend's. Uploads the weights. `model` outlives the executor. Throws Error: too little
  /// memory, a kernel that the driver refuses.
  GpuExecutor(std::string name, const LoadedModel& model, std::unique_ptr<Device> device);

  MemoryNeed memory_need(const Limits& limits) const override;
  BlockRoom block_room(const Limits& limits) const override;
  const Device& device() const { return *device_; }
  std::unique_ptr<DeviceMeter> device_meter(std::uint64_t buffer_bytes) override;

 protected:
  void allocate(const Limits& limits) override;
  void run_step(const StepWork& work, HeadConsumer& head) override;
  bool samples_on_device() const override { return slots_ != nullptr; }
  bool can_chain(const StepWork& first, const StopIds& stop_ids) const override;
  void start_chain() override;
  std::uint64_t run_chain(const StepWork& first, std::uint32_t steps, const StopIds& stop_ids,
                          std::span<std::int32_t> ids, const ChainProgress& progress) override;
  void cancel_chain() override;
  std::size_t block_bytes() const override { return cache_->layout().block_bytes(); }
  void copy_block(std::uint32_t source, std::uint32_t target) override { cache_->copy(source, target); }
  void read_block(std::uint32_t block, std::span<std::byte> target) const override {
    cache_->read(block, target);
  }
  void write_block(std::uint32_t block, std::span<const std::byte> source) override {
    cache_->write(block, source);
  }

  // For backends that run some steps in ways of their own. Cache and buffers are there once reserved.
  Device& own_device() { return *device_; }
  const ModelConfig& config() const { return config_; }
  const DeviceWeights& weights() const { return weights_; }
  const DeviceCache& cache() const { return *cache_; }
  StepBuffers& buffers() { return *buffers_; }
  const StepBuffers& buffers() const { return *buffers_; }

 private:
  struct Recorded {
    StepShape shape;
    bool chained = false;
    bool samples = false;
    std::unique_ptr<Recording> recording;
  };
  /// Most recordings that are kept: decoding has one for each number of rows.
  static constexpr std::size_t kMostRecordings = 64;

  StepStrides strides() const;
  const Recording& recording_of(const StepShape& shape, bool chained, bool samples);
  /// Says which of the head rows [first, first + rows) choose by which slot; whether any does.
  bool fill_slots(const StepWork& work, std::uint32_t first, std::uint32_t rows, const HeadConsumer* head);
  StepEncoder encoder(Recorder& recorder) const { return {config_, weights_, *cache_, *buffers_, recorder}; }
  /// The head rows [first, first + rows), which the head has just run for.
  void hand_over(std::uint32_t first, std::uint32_t rows, HeadConsumer& head);

  // Stage by stage, for an observer (executor_observed.cpp).
  class Observed;
  void run_observed(const StepWork& work, const StepShape& shape, HeadConsumer& head);

  const LoadedModel& model_;
  const ModelConfig& config_;
  std::unique_ptr<Device> device_;
  DeviceWeights weights_;
  std::unique_ptr<DeviceCache> cache_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<DeviceSlots> slots_;  // none if the device cannot bind so many
  std::vector<Recorded> recordings_;    // the latest used last
  std::vector<std::int32_t> chosen_;    // [rows] as they came back
  std::vector<float> hidden_, logits_;  // one row of each, as it came back
};

}  // namespace inferno::gpu
