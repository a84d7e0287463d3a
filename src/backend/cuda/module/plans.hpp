#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/module.hpp"

/// How each kernel of backend/gpu/kernels.hpp is launched: the grid there counts workgroups of Vulkan's
/// kernels; CUDA's are cut otherwise where that is faster, so each says its own from the constants.
namespace inferno::cuda {

/// A kernel's parameters are its buffers in the order of their bindings, its constants struct, and, if
/// `indirect`, a pointer to three u32 (or nullptr) and the grid of the command, which counts without it.
struct Launch {
  const void* function = nullptr;
  dim3 grid;
  dim3 block;
  unsigned shared_bytes = 0;
  unsigned buffers = 0;
  bool indirect = false;
};

Launch plan_embed(const Command& command);
Launch plan_norm(const Command& command);
Launch plan_quantize(const Command& command);
Launch plan_matvec(const Command& command);
Launch plan_matmul(const Command& command, unsigned shared_limit);
Launch plan_matmul_swiglu(const Command& command, unsigned shared_limit);
Launch plan_float_matrix(const Command& command);
Launch plan_heads(const Command& command);
Launch plan_attend(const Command& command, unsigned shared_limit);
Launch plan_merge(const Command& command);
Launch plan_swiglu(const Command& command);
Launch plan_add(const Command& command);
Launch plan_gather(const Command& command);
Launch plan_argmax(const Command& command);
Launch plan_sampling(const Command& command);
Launch plan_measure(const Command& command);

/// The plan of any command of kind kernel. `shared_limit`: bytes of shared memory that a workgroup can have
/// at most.
Launch plan(const Command& command, unsigned shared_limit);

/// Fills `count` words of device memory.
cudaError_t fill_words(void* target, std::uint32_t word, std::uint64_t count, cudaStream_t stream);

/// Copies pieces of pinned memory with one kernel, which reads them over the bus side by side: a copy of its
/// own for each takes longer than all of them together.
cudaError_t fetch_pieces(const Pieces& pieces, cudaStream_t stream);

/// Constants as the kernel's struct.
template <typename Constants>
const Constants& constants_of(const Command& command) {
  static_assert(sizeof(Constants) <= sizeof command.constants);
  return *reinterpret_cast<const Constants*>(command.constants);
}

/// A function's address as cudaLaunchKernel takes it.
template <typename Function>
const void* address_of(Function* function) {
  return reinterpret_cast<const void*>(function);
}

}  // namespace inferno::cuda
