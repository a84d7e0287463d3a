// Packed int8 weights times a prompt's tokens, on the tensor cores: tiles of weights and tokens are copied to
// shared memory half a segment ahead of the products.

#include "backend/cuda/module/kernels/common.cuh"
#include "backend/cuda/module/kernels/matmul.hpp"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::MatrixConstants;

constexpr uint kWarpRows = 32;  // of a warp's part of the tile
constexpr uint kWarpTokens = 32;
constexpr uint kRowTiles = kWarpRows / kMmaRows;
constexpr uint kTokenTiles = kWarpTokens / kMmaTokens;
constexpr uint kHalfBlocks = kSegmentBlocks / 2;        // blocks of a stage
constexpr uint kHalfChunks = kHalfBlocks * 2;           // 16-byte chunks of a stage, in each row
constexpr uint kHalfBytes = kHalfChunks * kChunkBytes;  // of a panel

__device__ void copy_16(void* target, const void* source) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<uint>(__cvta_generic_to_shared(target))),
      "l"(source)
      : "memory");
}
__device__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
__device__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

/// Four 8 by 16-byte matrices; lane l names row l % 8 of matrix l / 8 and gets bytes 4 (l % 4).. of row l / 4
/// of each.
__device__ void load_matrices(const void* row, uint (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<uint>(__cvta_generic_to_shared(row))));
}

/// Half a segment of kTileRows rows and kTileTokens tokens.
template <uint kTileRows, uint kTileTokens>
struct alignas(16) Stage {
  static constexpr uint kPanels = kTileRows / gpu::kPanel;
  static constexpr uint kTokenStride = kTileTokens * kChunk + kChunk;  // a chunk of all tokens, padded

  std::byte weights[kPanels * kHalfBytes];           // [panel][chunk][8 rows][16]
  std::byte tokens[kHalfChunks * kTokenStride];      // [chunk][token][16]
  __half weight_scales[kTileRows * kSegmentBlocks];  // [row][8], both halves of the segment
  float token_scales[kTileTokens * kHalfBlocks];     // [token][4]
};

/// What a workgroup multiplies.
struct Source {
  const std::byte* weights;
  const std::int8_t* quants;
  const float* scales;
  uint first_panel, panels, first_token, tokens, segments;
};

template <uint kThreads, uint kTileRows, uint kTileTokens>
__device__ void fetch(Stage<kTileRows, kTileTokens>& stage, const Source& source, uint step) {
  using TileStage = Stage<kTileRows, kTileTokens>;
  const uint segment = step / 2;
  const uint half = step % 2;
  // What lies behind the last row or token is computed from the last one and thrown away.
  const auto panel_at = [&](uint panel) {
    const uint index = min(source.first_panel + panel, source.panels - 1);
    return source.weights + (std::size_t{index} * source.segments + segment) * kQ8SegmentBytes;
  };
  const auto token_at = [&](uint token) {
    return std::size_t{min(source.first_token + token, source.tokens - 1)};
  };
  for (uint i = threadIdx.x; i < sizeof stage.weights / 16; i += kThreads) {
    constexpr uint kPieces = kHalfBytes / 16;
    copy_16(stage.weights + i * 16,
            panel_at(i / kPieces) + kScaleBytes + half * kHalfBytes + i % kPieces * 16);
  }
  for (uint i = threadIdx.x; i < kTileTokens * kHalfChunks; i += kThreads) {
    const uint token = i / kHalfChunks;
    const uint chunk = i % kHalfChunks;
    copy_16(stage.tokens + chunk * TileStage::kTokenStride + token * kChunk,
            source.quants + (token_at(token) * source.segments + segment) * arith::kSegment +
                (half * kHalfChunks + chunk) * kChunk);
  }
  for (uint i = threadIdx.x; i < kTileRows; i += kThreads) {
    copy_16(stage.weight_scales + i * kSegmentBlocks,
            panel_at(i / gpu::kPanel) + i % gpu::kPanel * kSegmentBlocks * sizeof(__half));
  }
  for (uint i = threadIdx.x; i < kTileTokens; i += kThreads) {
    copy_16(stage.token_scales + i * kHalfBlocks,
            source.scales + (token_at(i) * source.segments + segment) * kSegmentBlocks + half * kHalfBlocks);
  }
}

/// Adds the terms of one stage to `sums`; the warp has rows and tokens from (row, token) of the tile on.
template <typename TileStage>
__device__ void multiply_stage(const TileStage& stage, uint row, uint token, uint half,
                               float (&sums)[kRowTiles][kTokenTiles][4]) {
  const uint lane = lane_index();
  const uint matrix = lane / 8;
  uint2 scales[2 * kRowTiles];  // four halves each
#pragma unroll
  for (uint p = 0; p < 2 * kRowTiles; ++p) {
    scales[p] = reinterpret_cast<const uint2*>(stage.weight_scales)[(row + p * 8 + lane / 4) * 2 + half];
  }
#pragma unroll
  for (uint block = 0; block < kHalfBlocks; ++block) {
    uint b[kTokenTiles][2];
    float token_scales[kTokenTiles][2];
#pragma unroll
    for (uint n = 0; n < kTokenTiles; n += 2) {
      uint words[4];
      load_matrices(stage.tokens + (2 * block + matrix % 2) * TileStage::kTokenStride +
                        (token + (n + matrix / 2) * kMmaTokens + lane % 8) * kChunk,
                    words);
      b[n][0] = words[0];
      b[n][1] = words[1];
      b[n + 1][0] = words[2];
      b[n + 1][1] = words[3];
    }
#pragma unroll
    for (uint n = 0; n < kTokenTiles; ++n) {
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        token_scales[n][i] =
            stage.token_scales[(token + n * kMmaTokens + lane % 4 * 2 + i) * kHalfBlocks + block];
      }
    }
#pragma unroll
    for (uint m = 0; m < kRowTiles; ++m) {
      uint a[4];
      load_matrices(stage.weights + (row / gpu::kPanel + 2 * m + matrix % 2) * kHalfBytes +
                        (2 * block + matrix / 2) * kChunkBytes + lane % 8 * kChunk,
                    a);
      const auto scale_of = [block](const uint2& four) {
        const uint word = block < 2 ? four.x : four.y;
        return __half2float(__ushort_as_half(static_cast<unsigned short>(word >> (block % 2 * 16))));
      };
      const ScaledRows rows(scale_of(scales[2 * m]), scale_of(scales[2 * m + 1]));
#pragma unroll
      for (uint n = 0; n < kTokenTiles; ++n) rows.accumulate(a, b[n], token_scales[n], sums[m][n]);
    }
  }
}

/// Grid (row tiles, token tiles), kWarpsDown * kWarpsAcross warps.
template <uint kWarpsDown, uint kWarpsAcross>
__global__ void __launch_bounds__(kWarpsDown* kWarpsAcross* kWarp)
    matmul_tiled(const std::byte* weights, const std::int8_t* quants, const float* scales,
                 const float* factors, float* y, MatrixConstants c) {
  after_previous();
  constexpr uint kThreads = kWarpsDown * kWarpsAcross * kWarp;
  constexpr uint kTileRows = kWarpsDown * kWarpRows;
  constexpr uint kTileTokens = kWarpsAcross * kWarpTokens;
  using TileStage = Stage<kTileRows, kTileTokens>;
  extern __shared__ __align__(16) std::byte memory[];
  auto* stages = reinterpret_cast<TileStage*>(memory);
  const Source source{weights,
                      quants,
                      scales,
                      blockIdx.x * kTileRows / gpu::kPanel,
                      (c.rows + gpu::kPanel - 1) / gpu::kPanel,
                      blockIdx.y * kTileTokens,
                      c.tokens,
                      c.segments};
  const uint warp = threadIdx.x / kWarp;
  const uint row = warp % kWarpsDown * kWarpRows;
  const uint token = warp / kWarpsDown * kWarpTokens;
  float sums[kRowTiles][kTokenTiles][4] = {};
  float totals[kRowTiles][kTokenTiles][4] = {};
  const uint steps = 2 * c.segments;
  fetch<kThreads>(stages[0], source, 0);
  commit_copies();
  for (uint step = 0; step < steps; ++step) {
    wait_copies<0>();
    __syncthreads();  // this stage is here for all, and all have read the one that is filled next
    if (step + 1 < steps) fetch<kThreads>(stages[(step + 1) % 2], source, step + 1);
    commit_copies();
    multiply_stage(stages[step % 2], row, token, step % 2, sums);
    if (step % 2 == 0) continue;
#pragma unroll
    for (uint m = 0; m < kRowTiles; ++m)
#pragma unroll
      for (uint n = 0; n < kTokenTiles; ++n)
#pragma unroll
        for (uint i = 0; i < 4; ++i) {
          totals[m][n][i] = add(totals[m][n][i], sums[m][n][i]);
          sums[m][n][i] = 0.0F;
        }
  }

  const uint lane = lane_index();
#pragma unroll
  for (uint n = 0; n < kTokenTiles; ++n)
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      const uint t = source.first_token + token + n * kMmaTokens + lane % 4 * 2 + i % 2;
      if (t >= c.tokens) continue;
      const float factor = c.use_factors != 0 ? factors[t] : 1.0F;
#pragma unroll
      for (uint m = 0; m < kRowTiles; ++m) {
        const uint r = blockIdx.x * kTileRows + row + m * kMmaRows + i / 2 * 8 + lane / 4;
        if (r >= c.rows) continue;
        float value = totals[m][n][i];
        if (c.use_factors != 0) value = multiply(value, factor);
        float& target = y[std::size_t{t} * c.y_stride + c.first_out + r];
        target = c.accumulate != 0 ? add(target, value) : value;
      }
    }
}

template <uint kWarpsDown, uint kWarpsAcross>
Launch launch_for(const MatrixConstants& c) {
  constexpr uint kTileRows = kWarpsDown * kWarpRows;
  constexpr uint kTileTokens = kWarpsAcross * kWarpTokens;
  return {address_of(matmul_tiled<kWarpsDown, kWarpsAcross>),
          dim3(gpu::divide_up(c.rows, kTileRows), gpu::divide_up(c.tokens, kTileTokens)),
          dim3(kWarpsDown * kWarpsAcross * kWarp),
          static_cast<unsigned>(2 * sizeof(Stage<kTileRows, kTileTokens>)), 5};
}

}  // namespace

Launch plan_matmul_tiled(const MatrixConstants& c) {
  // Large tiles read less, small ones leave fewer multiprocessors without work.
  constexpr uint kEnoughGroups = 100;
  const uint large = gpu::divide_up(c.rows, 4 * kWarpRows) * gpu::divide_up(c.tokens, 4 * kWarpTokens);
  return large >= kEnoughGroups ? launch_for<4, 4>(c) : launch_for<2, 2>(c);
}

}  // namespace inferno::cuda
