#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/module.hpp"
#include "backend/cuda/persistent.hpp"

/// What the host's and the device's side of the persistent kernel agree on.
namespace inferno::cuda {

/// Whether a model of this shape can run on this device.
bool persistent_fits(const PersistentModel& of, const DeviceInfo& device);
/// Makes `of` the model of the launches to come; waits for it.
cudaError_t set_persistent_model(const PersistentModel& of, cudaStream_t stream);
/// One launch of `blocks` blocks, all of which must fit the device at once.
cudaError_t launch_persistent(const PersistentModel& of, const PersistentStep& step, unsigned blocks,
                              cudaStream_t stream);

}  // namespace inferno::cuda
