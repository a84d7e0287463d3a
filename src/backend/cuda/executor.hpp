#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/device.hpp"
#include "backend/cuda/persistent.hpp"
#include "backend/gpu/executor.hpp"

namespace inferno::cuda {

/// Whole steps on an NVIDIA GPU: those of any batch as a CUDA graph of the shared encoder's kernels, those
/// that decode up to 8 rows as one launch of a persistent kernel, where the device and the model's shape
/// allow it.
class CudaExecutor : public gpu::GpuExecutor {
 public:
  /// As GpuExecutor's. `persistent`: whether the persistent kernel is to be used where it can be.
  CudaExecutor(const LoadedModel& model, std::unique_ptr<CudaDevice> device, bool persistent);

  /// Most rows whose steps of one token each run as one launch, with the limits that were reserved: 0 if none
  /// do.
  std::uint32_t persistent_rows() const { return persistent_rows_; }

 protected:
  void allocate(const Limits& limits) override;
  void run_step(const StepWork& work, HeadConsumer& head) override;
  bool can_chain(const StepWork& first, const StopIds& stop_ids) const override;
  std::uint64_t run_chain(const StepWork& first, std::uint32_t steps, const StopIds& stop_ids,
                          std::span<std::int32_t> ids, const ChainProgress& progress) override;

 private:
  void prepare_persistent(const Limits& limits);
  /// Words for the kernel of so many rows; pointers to them go to `exchange`.
  std::unique_ptr<gpu::Buffer> create_exchange(std::uint32_t rows, PersistentExchange& exchange);
  /// Whether the step decodes a few rows that each take the largest logit, and `steps` of it have room.
  bool is_persistent(const StepWork& work, std::uint32_t steps) const;
  bool can_chain_persistent(const StepWork& first, const StopIds& stop_ids, std::uint32_t steps) const;
  void watch(std::uint32_t& steps_done, const ChainProgress& progress);
  /// Launches steps and waits for them; `progress` is told how many are done whenever more are.
  void run_persistent(const StepWork& first, std::uint32_t steps, const StopIds& stop_ids,
                      const ChainProgress& progress = {});

  std::span<std::uint32_t> answer_words() const;

  CudaDevice& cuda_;
  bool wants_persistent_;
  std::uint32_t persistent_rows_ = 0;
  /// One kernel's model, with the pointers of what is reserved.
  struct Resident {
    PersistentModel model;
    std::uint32_t epoch = 1;
    std::unique_ptr<gpu::Buffer> exchange;  // words
  };
  Resident one_, several_;               // for one row, for several
  std::unique_ptr<gpu::Buffer> layers_;  // PersistentLayer [L + 1]
  std::unique_ptr<gpu::Buffer> answer_;  // pinned: steps done, what was late, ids [max_steps][rows]
  std::vector<float> logits_;
};

}  // namespace inferno::cuda
