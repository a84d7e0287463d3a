#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/persistent.hpp"
#include "backend/gpu/executor.hpp"

namespace inferno::cuda {

/// Whole steps on an NVIDIA GPU: those of any batch as a CUDA graph of the shared encoder's kernels, those
/// that decode one row as one launch of the persistent kernel, where the device and the model's shape allow
/// it.
class CudaExecutor : public gpu::GpuExecutor {
 public:
  /// As GpuExecutor's. `persistent`: whether the persistent kernel is to be used where it can be.
  CudaExecutor(const LoadedModel& model, std::unique_ptr<CudaDevice> device, bool persistent);

  /// Whether steps of one token run as one launch, with the limits that were reserved.
  bool is_persistent() const { return persistent_; }

 protected:
  void allocate(const Limits& limits) override;
  void run_step(const StepWork& work, HeadConsumer& head) override;
  bool can_chain(const StepWork& first, const StopIds& stop_ids) const override;
  std::uint64_t run_chain(const StepWork& first, std::uint32_t steps, const StopIds& stop_ids,
                          std::span<std::int32_t> ids) override;

 private:
  void prepare_persistent(const Limits& limits);
  /// Whether the step decodes one row that takes the largest logit.
  bool is_single_greedy(const StepWork& work) const;
  bool can_chain_persistent(const StepWork& first, const StopIds& stop_ids) const;
  /// Launches steps and waits for them.
  void run_persistent(const StepWork& first, std::uint32_t steps, std::span<const std::int32_t> stop_ids);

  std::span<std::uint32_t> answer_words() const;

  CudaDevice& cuda_;
  bool wants_persistent_;
  bool persistent_ = false;
  PersistentModel shape_;  // with the pointers of what is reserved
  std::uint32_t epoch_ = 1;
  std::unique_ptr<gpu::Buffer> layers_;    // PersistentLayer [L + 1]
  std::unique_ptr<gpu::Buffer> exchange_;  // words
  std::unique_ptr<gpu::Buffer> answer_;    // pinned: steps done, what was late, ids [max_steps]
  std::vector<float> logits_;
};

}  // namespace inferno::cuda
