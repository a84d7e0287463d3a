#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/module.hpp"
#include "backend/cuda/persistent.hpp"

/// What the host's and the device's side of the persistent kernels agree on.
namespace inferno::cuda {

/// A kernel, and what it is launched with.
struct PersistentChoice {
  const void* function = nullptr;
  const void* model = nullptr;  // the symbol of its PersistentModel
  std::size_t shared_bytes = 0;
  unsigned own_rows = 0;   // of the hidden size that a block has room for
  unsigned most_rows = 0;  // of a batch
  unsigned threads = 0;    // of a block
};

// The kernel for a model of this shape; no function if there is none.
PersistentChoice choose_small_kernel(const PersistentModel& of);
PersistentChoice choose_large_kernel(const PersistentModel& of);
/// Of several rows.
PersistentChoice choose_rows_kernel(const PersistentModel& of);

/// Splits of one row or of several that a block can attend to.
inline constexpr unsigned kMostJobs = 128;

/// Most rows of a model of this shape that can run on this device, 0 if none.
std::uint32_t persistent_rows(const PersistentModel& of, const DeviceInfo& device);
/// Makes `of` the model of the launches to come of the kernel for so many rows; waits for it.
cudaError_t set_persistent_model(const PersistentModel& of, std::uint32_t rows, cudaStream_t stream);
/// One launch of `blocks` blocks, all of which must fit the device at once.
cudaError_t launch_persistent(const PersistentModel& of, const PersistentStep& step, unsigned blocks,
                              cudaStream_t stream);

}  // namespace inferno::cuda
