// The lowest index of the largest of each row of logits, in two passes.

#include "backend/cuda/module/kernels/common.cuh"
#include "sampling/fixed_exp.hpp"

namespace inferno::cuda {
namespace {

using gpu::ArgmaxConstants;

constexpr unsigned kThreads = 256;
constexpr uint kKeyOfNan = 0xFFFFFFFFU;
constexpr uint kKeyOfMinusInfinity = 0x007FFFFFU;

/// Orders candidates as one number: larger key first, then lower index.
__device__ std::uint64_t rank(uint key, uint index) {
  return static_cast<std::uint64_t>(key) << 32U | ~index;
}

/// The largest of the block's numbers, in thread 0.
__device__ std::uint64_t block_max(std::uint64_t best) {
  __shared__ std::uint64_t warps[kThreads / kWarp];
  for (unsigned half = kWarp / 2; half > 0; half /= 2) {
    const std::uint64_t other = __shfl_xor_sync(kAllLanes, best, half);
    if (other > best) best = other;
  }
  if (lane_index() == 0) warps[threadIdx.x / kWarp] = best;
  __syncthreads();
  for (const std::uint64_t other : warps) {
    if (other > best) best = other;
  }
  return best;
}

/// Grid (chunks, rows).
__global__ void argmax_chunks(const float* logits, uint2* chunks, ArgmaxConstants c) {
  after_previous();
  logits += blockIdx.y * std::size_t{c.stride};
  std::uint64_t best = rank(kKeyOfMinusInfinity, 0xFFFFFFFFU);
  const uint first = blockIdx.x * gpu::kArgmaxChunk;
  const uint end = min(first + gpu::kArgmaxChunk, c.columns);
  for (uint i = first + threadIdx.x; i < end; i += kThreads) {
    const float logit = logits[i];
    const bool nan = arith::magnitude_bits(logit) > 0x7F800000U;
    const std::uint64_t mine = rank(nan ? kKeyOfNan : sampling::order_key(logit), i);
    if (mine > best) best = mine;
  }
  best = block_max(best);
  if (threadIdx.x == 0) {
    chunks[blockIdx.y * std::size_t{c.chunks} + blockIdx.x] =
        make_uint2(static_cast<uint>(best >> 32U), ~static_cast<uint>(best));
  }
}

/// Grid (1, rows).
__global__ void argmax(const uint2* chunks, uint* chosen, ArgmaxConstants c) {
  after_previous();
  chunks += blockIdx.y * std::size_t{c.chunks};
  std::uint64_t best = rank(kKeyOfMinusInfinity, 0xFFFFFFFFU);
  for (uint i = threadIdx.x; i < c.chunks; i += kThreads) {
    const std::uint64_t mine = rank(chunks[i].x, chunks[i].y);
    if (mine > best) best = mine;
  }
  best = block_max(best);
  if (threadIdx.x != 0) return;
  const uint key = static_cast<uint>(best >> 32U);
  chosen[blockIdx.y] =
      key == kKeyOfNan || key <= kKeyOfMinusInfinity ? gpu::kNothingChosen : ~static_cast<uint>(best);
}

}  // namespace

Launch plan_argmax(const Command& command) {
  const void* function = command.kernel == Kernel::argmax ? address_of(argmax) : address_of(argmax_chunks);
  return {function, dim3(command.grid.x, command.grid.y), dim3(kThreads), 0, 2};
}

}  // namespace inferno::cuda
