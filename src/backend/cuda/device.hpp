#pragma once

#include <cstdint>
#include <memory>

#include "backend/cuda/module.hpp"
#include "backend/gpu/device.hpp"

namespace inferno::cuda {

/// A device as the shared encoder sees it, and what is CUDA's own.
///
/// How it keeps the promises of gpu::Device:
/// - Everything goes through one stream, so commands run in the order of recording; a barrier is nothing.
/// - Buffers of kind `upload` have a twin on the device, which is what kernels read: each submission begins
/// with
///   copying the parts that it binds. Kernels that read the host's memory pay a trip over the bus each time.
/// - A recording is launched command by command the first time, and as a CUDA graph from the second time on:
/// a
///   graph costs more to make than it saves once. If it cannot be made, that is said once, and the commands
///   are launched one by one for good.
class CudaDevice : public gpu::Device {
 public:
  /// Where kernels find a slice.
  virtual void* address(const gpu::Slice& slice) const = 0;
  /// How many rows of a model of this shape can run whole steps as one launch, 0 if none can; pointers do not
  /// matter.
  virtual std::uint32_t persistent_rows(const PersistentModel& of) const = 0;
  /// Launches steps and returns at once; counts as one submission.
  virtual void persistent_launch(const PersistentModel& of, const PersistentStep& step) = 0;
};

/// Opens device `index` of those that `library()` counts. Throws Error naming what failed.
std::unique_ptr<CudaDevice> open_device(const Module& module, std::uint32_t index);

}  // namespace inferno::cuda
