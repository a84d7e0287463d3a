#pragma once

#include "backend/cuda/module/kernels/common.cuh"

/// Products of warpgroups (four warps) on int8, which take their operands from shared memory. Compute
/// capability 9.0; elsewhere the functions are there and do nothing, and the host does not launch what calls
/// them.
namespace inferno::cuda {

constexpr uint kGroupThreads = 4 * kWarp;
/// Rows and tokens of one product; its depth is a block of 32 columns.
constexpr uint kGroupRows = 64;
constexpr uint kGroupTokens = 32;

/// A lane's of a product: four for each eight tokens, as of mma_s8, of 16 rows for each warp.
using Dots = int[kGroupTokens / 8 * 4];

/// The lower words of what tells a product where rows and tokens begin; an address in shared memory is in
/// units of 16 bytes there, so they go on by adding such units. Of rows, pieces of 8 rows and 16 columns are
/// contiguous; those of the next 16 columns kAlong bytes further on, of the next 8 rows kDown. Of tokens, 128
/// columns are contiguous, eight tokens 1,024 bytes, aligned to that; unit i of 16 columns of token t stands
/// where unit i ^ t % 8 would.
constexpr uint kProductUnit = 16;
template <uint kAlong>
__device__ inline uint rows_at(uint address) {
  return address / kProductUnit | kAlong / kProductUnit << 16;
}
__device__ inline uint tokens_at(uint address) {
  return address / kProductUnit | 1U << 16;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/// Starts the dot products of rows and tokens.
template <uint kDown>
__device__ inline void start_products(uint rows, uint tokens, Dots& d) {
  constexpr uint kSwizzled = 1U << 30;
  asm volatile(
      "{\n.reg .pred first;\n.reg .b64 a, b;\nsetp.ne.b32 first, 0, 0;\n"
      "mov.b64 a, {%16, %18};\nmov.b64 b, {%17, %19};\n"
      "wgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.s8.s8 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, "
      "%13, %14, %15}, a, b, first;\n"
      "wgmma.commit_group.sync.aligned;\n}"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]), "+r"(d[7]),
        "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15])
      : "r"(rows), "r"(tokens), "n"(kDown / kProductUnit), "n"(1024 / kProductUnit | kSwizzled)
      : "memory");
}

/// Waits for all that the warpgroup has started.
__device__ inline void wait_products(Dots& d) {
  asm volatile("wgmma.wait_group.sync.aligned 0;"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]),
                 "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]),
                 "+r"(d[14]), "+r"(d[15])
               :
               : "memory");
}

/// What the thread has copied can be seen by products that are started behind the next barrier.
__device__ inline void copies_before_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#else
template <uint kDown>
__device__ inline void start_products(uint, uint, Dots&) {}
__device__ inline void wait_products(Dots&) {}
__device__ inline void copies_before_products() {}
#endif

}  // namespace inferno::cuda
