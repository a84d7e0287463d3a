#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/module.hpp"
#include "backend/cuda/persistent.hpp"

/// What the host's and the device's side of the persistent kernel agree on.
namespace inferno::cuda {

inline constexpr std::uint32_t kPersistentItems = 6;
inline constexpr std::uint32_t kPersistentSlots = 16;
inline constexpr std::uint32_t kPersistentOwnRows = 512;

/// Panels of each matrix that a block works on together, and what its memory is cut into.
struct PersistentBatches {
  std::uint32_t qkv = 1, output = 1, gate = 1, down = 1, head = 1;
  std::uint32_t most_rounds = 1;   ///< of a warp over any vector
  std::uint32_t term_floats = 0;   ///< of one of the two buffers of terms
  std::uint32_t shared_bytes = 0;  ///< of a block, in all
};

/// Whether a model of this shape can run on this device.
bool persistent_fits(const PersistentModel& of, const DeviceInfo& device);
/// Makes `of` the model of the launches to come; waits for it.
cudaError_t set_persistent_model(const PersistentModel& of, cudaStream_t stream);
/// One launch of `blocks` blocks, all of which must fit the device at once.
cudaError_t launch_persistent(const PersistentModel& of, const PersistentStep& step, unsigned blocks,
                              cudaStream_t stream);

}  // namespace inferno::cuda
