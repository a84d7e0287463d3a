// What the device can do at best: kernels that only read, or only multiply. The limits that `bench` compares
// with.

#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::MeasureConstants;

constexpr uint kThreads = gpu::kMeasureThreads;
constexpr uint kChains = 8;
/// Products of a warp in a round of measure_int8.
constexpr uint kProducts = 16;

__device__ uint place() {
  return blockIdx.x * kThreads + threadIdx.x;
}

/// A workgroup reads kMeasureUnits times 16 bytes for each of its threads.
__global__ void __launch_bounds__(kThreads) measure_read(const uint4* data, uint* sink, MeasureConstants) {
  after_previous();
  const uint4* mine = data + std::size_t{blockIdx.x} * kThreads * gpu::kMeasureUnits + threadIdx.x;
  uint4 units[gpu::kMeasureUnits];
#pragma unroll
  for (uint i = 0; i < gpu::kMeasureUnits; ++i) units[i] = __ldcs(mine + i * kThreads);
  uint sum = 0;
#pragma unroll
  for (const uint4& unit : units) sum ^= unit.x ^ unit.y ^ unit.z ^ unit.w;
  sink[place()] = sum;
}

/// Chains of integer products on the tensor cores, of the size that matrix products here are made of.
__global__ void __launch_bounds__(kThreads) measure_int8(uint* sink, MeasureConstants c) {
  after_previous();
  int sums[kChains][4];
#pragma unroll
  for (uint i = 0; i < kChains; ++i) {
#pragma unroll
    for (uint j = 0; j < 4; ++j) sums[i][j] = static_cast<int>(place() + i + j);
  }
  const uint a[4] = {place(), 0x01FE03FCU, place() + 1, 0x03FC01FEU};
#pragma unroll 1
  for (uint round = 0; round < c.count; ++round) {
    const uint b[2] = {0x01FE03FCU + round, round};
#pragma unroll
    for (uint i = 0; i < kProducts; ++i) {
      int(&d)[4] = sums[i % kChains];
      asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
  }
  int all = 0;
#pragma unroll
  for (const auto& chain : sums) all ^= chain[0] + chain[1] + chain[2] + chain[3];
  sink[place()] = static_cast<uint>(all);
}

/// Chains of multiply-adds.
__global__ void __launch_bounds__(kThreads) measure_fp32(uint* sink, MeasureConstants c) {
  after_previous();
  float sums[kChains];
#pragma unroll
  for (uint i = 0; i < kChains; ++i) sums[i] = static_cast<float>(place() + i);
#pragma unroll 1
  for (uint round = 0; round < c.count; ++round) {
#pragma unroll
    for (uint i = 0; i < static_cast<uint>(gpu::kMeasureFloatOperations) / 2; ++i)
      sums[i % kChains] = __fmaf_rn(sums[i % kChains], 0.999F, 1.5F);
  }
  uint all = 0;
#pragma unroll
  for (const float sum : sums) all ^= __float_as_uint(sum);
  sink[place()] = all;
}

}  // namespace

Launch plan_measure(const Command& command) {
  switch (command.kernel) {
    case Kernel::measure_read:
      return {address_of(measure_read), dim3(command.grid.x), dim3(kThreads), 0, 2};
    case Kernel::measure_int8:
      return {address_of(measure_int8), dim3(command.grid.x), dim3(kThreads), 0, 1};
    default:
      return {address_of(measure_fp32), dim3(command.grid.x), dim3(kThreads), 0, 1};
  }
}

}  // namespace inferno::cuda
