#pragma once

#include <cstdint>
#include <cuda_fp16.h>

#include "arith/quantize.hpp"
#include "backend/cuda/module/plans.hpp"

/// What CUDA's kernels share. Floats are added and multiplied by arith's functions alone (and the whole
/// module is compiled with -fmad=false), so that each operation rounds once as the contract says.
namespace inferno::cuda {

using arith::add;
using arith::multiply;
using gpu::Kernel;
using uint = arith::uint;

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr float kMinusInfinity = -__builtin_huge_valf();
constexpr uint kSegmentBlocks = arith::kSegment / arith::kBlock;
/// Packed weights, as kernels.hpp lays them out: bytes of a panel's segment, and of the scales at its begin.
constexpr uint kScaleBytes = gpu::kPanel * kSegmentBlocks * sizeof(__half);
constexpr uint kQ8SegmentBytes = kScaleBytes + gpu::kPanel * arith::kSegment;
/// Columns of a chunk: what one 16-byte load brings of a row.
constexpr uint kChunk = 16;
constexpr uint kChunkBytes = gpu::kPanel * kChunk;

/// Waits for the kernel before, whose writes can be seen then. Kernels are launched while it still runs
/// (programmatic dependent launch), and let the next one do the same; what they read before this call no
/// kernel writes.
__device__ inline void after_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\ngriddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline uint shared_address(const void* pointer) {
  return static_cast<uint>(__cvta_generic_to_shared(pointer));
}

__device__ inline uint lane_index() {
  return threadIdx.x % kWarp;
}

/// Sum j of 32 stands in lane j: the contract's tree (16, 8, 4, 2, 1), in every lane. Partners add the same
/// two numbers, so all lanes get lane 0's bits.
__device__ inline float tree_sum(float sum) {
  for (unsigned half = kWarp / 2; half > 0; half /= 2) sum = add(sum, __shfl_xor_sync(kAllLanes, sum, half));
  return sum;
}

/// The largest magnitude of the warp's values, as bits.
__device__ inline uint largest_magnitude(float x) {
  return __reduce_max_sync(kAllLanes, arith::magnitude_bits(x));
}

/// Quantizes a block of 32 whose values stand in a warp's lanes.
__device__ inline void quantize_block(float x, std::int8_t* values, float* scale) {
  const uint largest = largest_magnitude(x);
  values[lane_index()] =
      static_cast<std::int8_t>(arith::quantize(x, arith::block_inverse(largest, arith::kInt8Levels)));
  if (lane_index() == 0) *scale = arith::block_scale(largest, arith::kInt8Step);
}

/// Four values next to each other of a block whose largest magnitude has these bits, as four bytes.
__device__ inline uint quantize_four(const float (&values)[4], uint largest) {
  const float inverse = arith::block_inverse(largest, arith::kInt8Levels);
  uint bits[4];  // what is rounded stands in the lowest byte
#pragma unroll
  for (uint i = 0; i < 4; ++i) bits[i] = __float_as_uint(add(multiply(values[i], inverse), arith::kRounder));
  const uint bytes =
      __byte_perm(__byte_perm(bits[0], bits[1], 0x0040), __byte_perm(bits[2], bits[3], 0x0040), 0x5410);
  return inverse == 0.0F ? 0 : bytes;
}

/// The largest magnitude, as bits, of a block of 32 of which eight threads have four values each, next to
/// each other in whole warps.
__device__ inline uint largest_of_fours(const float (&values)[4]) {
  uint largest = 0;
#pragma unroll
  for (const float value : values) largest = max(largest, arith::magnitude_bits(value));
#pragma unroll
  for (unsigned lanes = 4; lanes > 0; lanes /= 2) {
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, lanes));
  }
  return largest;
}

/// Quantizes such blocks. `target` and `scale`: the thread's own, and its block's.
__device__ inline void quantize_fours(const float (&values)[4], std::int8_t* target, float* scale) {
  const uint largest = largest_of_fours(values);
  *reinterpret_cast<uint*>(target) = quantize_four(values, largest);
  if (threadIdx.x % 8 == 0) *scale = arith::block_scale(largest, arith::kInt8Step);
}

/// Starts an exact dot product of int8 values in the bits of a float: kRounder + dot, for |dot| < 2^22. So
/// the sum becomes a float by one subtraction; the conversion instruction runs at a quarter of its rate.
constexpr int kDotStart = 0x4B400000;
__device__ inline float dot_to_float(int dot) {
  return arith::subtract(__int_as_float(dot), arith::kRounder);
}

/// Adds the dot product of 16 pairs to `dot`.
__device__ inline int dot16(const int4& a, const int4& b, int dot) {
  dot = __dp4a(a.x, b.x, dot);
  dot = __dp4a(a.y, b.y, dot);
  dot = __dp4a(a.z, b.z, dot);
  return __dp4a(a.w, b.w, dot);
}

}  // namespace inferno::cuda
