// Packed int8 weights times some tokens, on the tensor cores: a product of 16 rows, 32 columns and 8 tokens
// gives exactly the integer dot product of a block, so the sums are those of the matrix-vector kernel.

#include "backend/cuda/module/kernels/common.cuh"
#include "backend/cuda/module/kernels/matmul.hpp"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::MatrixConstants;

constexpr uint kRows = 32;                    // of a workgroup's tile
constexpr uint kRowTiles = kRows / kMmaRows;  // of a warp
constexpr uint kPanels = kRows / gpu::kPanel;
constexpr uint kMostWarps = 12;
constexpr uint kWordsPerChunk = kChunkBytes / 4;

/// Warps of a workgroup: each takes a segment of the tile in turn, so few tokens still fill the device.
constexpr uint warps_for(uint segments) {
  return segments <= kMostWarps ? segments : 8;
}

/// A warp's part: sums of one segment over kRows rows and 8 kTokenTiles tokens.
template <unsigned kTokenTiles>
struct Tile {
  float sums[kRowTiles][kTokenTiles][4];

  /// `weights`: the first panel's segment; the next panel's is `panel_bytes` further. `x` and `scales` of the
  /// tile's tokens, each lane's clamped to those that exist.
  __device__ void run(const std::byte* (&segments)[kPanels], const std::int8_t* (&x)[kTokenTiles],
                      const float* (&scales)[kTokenTiles][2]) {
    const uint lane = lane_index();
    int4 packed_scales[kPanels];
#pragma unroll
    for (uint p = 0; p < kPanels; ++p) {
      packed_scales[p] = __ldg(reinterpret_cast<const int4*>(segments[p]) + lane / 4);
    }
#pragma unroll
    for (auto& row : sums)
#pragma unroll
      for (auto& tile : row)
#pragma unroll
        for (float& sum : tile) sum = 0.0F;
#pragma unroll
    for (uint block = 0; block < kSegmentBlocks; ++block) {
      uint b[kTokenTiles][2];
      float x_scales[kTokenTiles][2];
#pragma unroll
      for (uint n = 0; n < kTokenTiles; ++n) {
        const auto* words = reinterpret_cast<const uint*>(x[n] + block * arith::kBlock) + lane % 4;
        b[n][0] = words[0];
        b[n][1] = words[kWordsPerChunk / gpu::kPanel];
        x_scales[n][0] = scales[n][0][block];
        x_scales[n][1] = scales[n][1][block];
      }
#pragma unroll
      for (uint m = 0; m < kRowTiles; ++m) {
        const auto* upper = reinterpret_cast<const uint*>(segments[2 * m] + kScaleBytes) + lane;
        const auto* lower = reinterpret_cast<const uint*>(segments[2 * m + 1] + kScaleBytes) + lane;
        const uint a[4] = {
            __ldg(upper + 2 * block * kWordsPerChunk), __ldg(lower + 2 * block * kWordsPerChunk),
            __ldg(upper + (2 * block + 1) * kWordsPerChunk), __ldg(lower + (2 * block + 1) * kWordsPerChunk)};
        const ScaledRows rows(half_of(packed_scales[2 * m], block), half_of(packed_scales[2 * m + 1], block));
#pragma unroll
        for (uint n = 0; n < kTokenTiles; ++n) rows.accumulate(a, b[n], x_scales[n], sums[m][n]);
      }
    }
  }
};

/// Grid (row tiles, token tiles); warps_for(segments) warps.
template <unsigned kTokenTiles>
__global__ void __launch_bounds__(kMostWarps* kWarp)
    matmul_q8(const std::byte* weights, const std::int8_t* quants, const float* scales, const float* factors,
              float* y, MatrixConstants c) {
  after_previous();
  constexpr uint kTokens = kTokenTiles * kMmaTokens;
  extern __shared__ float partial[];  // [warps][kTokens][kRows]
  const uint lane = lane_index();
  const uint warp = threadIdx.x / kWarp;
  const uint warps = blockDim.x / kWarp;
  const uint first_row = blockIdx.x * kRows;
  const uint first_token = blockIdx.y * kTokens;
  const uint panels = (c.rows + gpu::kPanel - 1) / gpu::kPanel;
  const std::size_t stride = std::size_t{c.segments} * arith::kSegment;

  // What lies behind the last row or token is computed from the last one and thrown away.
  std::size_t panel_offsets[kPanels];
#pragma unroll
  for (uint p = 0; p < kPanels; ++p) {
    const uint panel = min(first_row / gpu::kPanel + p, panels - 1);
    panel_offsets[p] = std::size_t{panel} * c.segments * kQ8SegmentBytes;
  }
  uint tokens[kTokenTiles], scale_tokens[kTokenTiles][2];
#pragma unroll
  for (uint n = 0; n < kTokenTiles; ++n) {
    tokens[n] = min(first_token + n * kMmaTokens + lane / 4, c.tokens - 1);
    scale_tokens[n][0] = min(first_token + n * kMmaTokens + lane % 4 * 2, c.tokens - 1);
    scale_tokens[n][1] = min(first_token + n * kMmaTokens + lane % 4 * 2 + 1, c.tokens - 1);
  }

  constexpr uint kOutputs = kRows * kTokens;
  float totals[kOutputs /
               kWarp];  // outputs threadIdx.x, threadIdx.x + threads, ...; at most these with one warp
#pragma unroll
  for (float& total : totals) total = 0.0F;
  for (uint first = 0; first < c.segments; first += warps) {
    const uint segment = first + warp;
    if (segment < c.segments) {
      const std::byte* panel_segments[kPanels];
      const std::int8_t* x[kTokenTiles];
      const float* x_scales[kTokenTiles][2];
#pragma unroll
      for (uint p = 0; p < kPanels; ++p) {
        panel_segments[p] = weights + panel_offsets[p] + std::size_t{segment} * kQ8SegmentBytes;
      }
#pragma unroll
      for (uint n = 0; n < kTokenTiles; ++n) {
        x[n] = quants + tokens[n] * stride + std::size_t{segment} * arith::kSegment;
#pragma unroll
        for (uint i = 0; i < 2; ++i) {
          x_scales[n][i] =
              scales + scale_tokens[n][i] * (stride / arith::kBlock) + std::size_t{segment} * kSegmentBlocks;
        }
      }
      Tile<kTokenTiles> tile;
      tile.run(panel_segments, x, x_scales);
      float* mine = partial + warp * kOutputs;
#pragma unroll
      for (uint m = 0; m < kRowTiles; ++m)
#pragma unroll
        for (uint n = 0; n < kTokenTiles; ++n)
#pragma unroll
          for (uint i = 0; i < 4; ++i) {
            const uint row = m * kMmaRows + i / 2 * 8 + lane / 4;
            const uint token = n * kMmaTokens + lane % 4 * 2 + i % 2;
            mine[token * kRows + row] = tile.sums[m][n][i];
          }
    }
    __syncthreads();
    const uint count = min(warps, c.segments - first);
#pragma unroll
    for (uint j = 0; j < kOutputs / kWarp; ++j) {
      const uint o = threadIdx.x + j * blockDim.x;
      if (o >= kOutputs) break;
      for (uint i = 0; i < count; ++i) totals[j] = add(totals[j], partial[i * kOutputs + o]);
    }
    __syncthreads();
  }

#pragma unroll
  for (uint j = 0; j < kOutputs / kWarp; ++j) {
    const uint o = threadIdx.x + j * blockDim.x;
    if (o >= kOutputs) break;
    const uint row = first_row + o % kRows;
    const uint token = first_token + o / kRows;
    if (row >= c.rows || token >= c.tokens) continue;
    float value = totals[j];
    if (c.use_factors != 0) value = multiply(value, factors[token]);
    float& target = y[std::size_t{token} * c.y_stride + c.first_out + row];
    target = c.accumulate != 0 ? add(target, value) : value;
  }
}

template <unsigned kTokenTiles>
Launch launch_for(const MatrixConstants& c) {
  constexpr uint kTokens = kTokenTiles * kMmaTokens;
  const uint warps = warps_for(c.segments);
  return {address_of(matmul_q8<kTokenTiles>),
          dim3(gpu::divide_up(c.rows, kRows), gpu::divide_up(c.tokens, kTokens)), dim3(warps * kWarp),
          static_cast<unsigned>(warps * kRows * kTokens * sizeof(float)), 5};
}

}  // namespace

Launch plan_matmul(const Command& command) {
  const auto& c = constants_of<MatrixConstants>(command);
  if (c.tokens >= kTiledTokens) return plan_matmul_tiled(c);
  if (c.tokens <= kMmaTokens) return launch_for<1>(c);
  if (c.tokens <= 2 * kMmaTokens) return launch_for<2>(c);
  return launch_for<4>(c);
}

}  // namespace inferno::cuda
