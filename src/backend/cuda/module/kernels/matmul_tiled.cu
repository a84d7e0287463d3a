// Packed int8 weights times a prompt's tokens, on the tensor cores: tiles of weights and tokens are copied to
// shared memory a few halves of a segment ahead of the products. What bounds it is not the tensor cores but
// the three float operations for each block and output: everything else is kept out of their way.

#include "backend/cuda/module/kernels/common.cuh"
#include "backend/cuda/module/kernels/matmul.hpp"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::MatrixConstants;

constexpr uint kTokenTiles = 4;  // of a warp
constexpr uint kWarpTokens = kTokenTiles * kMmaTokens;
using Order = TokenOrder<kTokenTiles>;
constexpr uint kHalfBlocks = kSegmentBlocks / 2;            // blocks of a stage
constexpr uint kHalfColumns = kHalfBlocks * arith::kBlock;  // its columns
constexpr uint kHalfChunks = kHalfColumns / kChunk;         // its 16-byte chunks in each row
constexpr uint kHalfBytes = kHalfChunks * kChunkBytes;      // its bytes of a panel
constexpr uint kSumsPerTile = 4;                            // of a lane, of a product

/// How a workgroup shares a tile: kDown times kAcross warps, each with kRowTiles products of rows and
/// kTokenTiles of tokens; kGroups such groups, which take segments in turn.
template <uint kDownWarps, uint kAcrossWarps, uint kRowTilesOfWarp, uint kGroupCount, uint kStageCount,
          uint kBlocksOfMultiprocessor>
struct Shape {
  static constexpr uint kDown = kDownWarps;
  static constexpr uint kRowTiles = kRowTilesOfWarp;
  static constexpr uint kGroups = kGroupCount;
  static constexpr uint kStages = kStageCount;
  static constexpr uint kResident = kBlocksOfMultiprocessor;
  static constexpr uint kWarpRows = kRowTiles * kMmaRows;
  static constexpr uint kRows = kDown * kWarpRows;
  static constexpr uint kTokens = kAcrossWarps * kWarpTokens;
  static constexpr uint kPanels = kRows / gpu::kPanel;
  static constexpr uint kGroupWarps = kDown * kAcrossWarps;
  static constexpr uint kGroupThreads = kGroupWarps * kWarp;
  static constexpr uint kThreads = kGroups * kGroupThreads;
  static constexpr uint kSums = kRowTiles * kTokenTiles * kSumsPerTile;  // of a lane
  static_assert(kRowTiles % kGroups == 0);

  /// Half a segment.
  struct alignas(16) Stage {
    std::byte weights[kPanels * kHalfBytes];   // [panel][chunk][8 rows][16]
    std::byte tokens[kTokens * kHalfColumns];  // [token][chunk, swizzled]
    float token_scales[kHalfBlocks][kTokens];
    uint2 weight_scales[kRows];  // four halves each
  };
  struct Memory {
    Stage stages[kGroups][kStages];
    float4 sums[kGroups > 1 ? kGroups* kGroupWarps* kSums / 4 : 1][kWarp];  // [group][warp][four sums][lane]
  };
};

/// What a thread copies of each stage. Offsets count units of 16 bytes, so that 32 bits are enough for them.
template <typename S>
struct Fetch {
  static constexpr uint kUnit = 16;
  static constexpr uint kPieces = kHalfBytes / kUnit;  // of a panel
  static constexpr uint kWeights = S::kPanels * kPieces / S::kGroupThreads;
  static constexpr uint kTokens = S::kTokens * kHalfChunks / S::kGroupThreads;
  static constexpr uint kScales = S::kTokens * kHalfBlocks / S::kGroupThreads;
  static constexpr uint kSegmentUnits = kQ8SegmentBytes / kUnit;

  const std::byte* weights;
  const std::int8_t* quants;
  const float* scales;
  uint thread;
  uint weights_at[kWeights], weight_scales_at, tokens_at[kTokens], token_scales_at[kScales];

  // What lies behind the last row or token is computed from the last one and thrown away.
  __device__ Fetch(const std::byte* from, const std::int8_t* x, const float* x_scales, uint first_panel,
                   uint first_token, uint group_thread, const MatrixConstants& c)
      : weights(from), quants(x), scales(x_scales), thread(group_thread) {
    const uint last_panel = (c.rows - 1) / gpu::kPanel;
    const auto panel_at = [&](uint panel) {
      return min(first_panel + panel, last_panel) * (c.segments * kSegmentUnits);
    };
    const auto token_at = [&](uint token) { return min(first_token + token, c.tokens - 1) * c.segments; };
#pragma unroll
    for (uint j = 0; j < kWeights; ++j) {
      const uint i = thread + j * S::kGroupThreads;
      weights_at[j] = panel_at(i / kPieces) + kScaleBytes / kUnit + i % kPieces;
    }
    weight_scales_at = panel_at(thread % S::kRows / gpu::kPanel) + thread % gpu::kPanel;
#pragma unroll
    for (uint j = 0; j < kTokens; ++j) {
      const uint i = thread + j * S::kGroupThreads;
      tokens_at[j] = token_at(i / kHalfChunks) * (arith::kSegment / kUnit) + i % kHalfChunks;
    }
#pragma unroll
    for (uint j = 0; j < kScales; ++j) {
      token_scales_at[j] = token_at((thread + j * S::kGroupThreads) % S::kTokens) * 2;
    }
  }

  __device__ void fetch_weights(typename S::Stage& stage, uint segment, uint half) const {
    const uint offset = segment * kSegmentUnits;
#pragma unroll
    for (uint j = 0; j < kWeights; ++j) {
      copy_ahead<16>(stage.weights + (thread + j * S::kGroupThreads) * kUnit,
                     weights + std::size_t{weights_at[j] + offset + half * kPieces} * kUnit);
    }
    if (thread < S::kRows) {
      copy_ahead<8>(&stage.weight_scales[thread],
                    weights + std::size_t{weight_scales_at + offset} * kUnit + half * sizeof(uint2));
    }
  }

  __device__ void fetch_tokens(typename S::Stage& stage, uint segment, uint half) const {
    const uint step = 2 * segment + half;
#pragma unroll
    for (uint j = 0; j < kTokens; ++j) {
      const uint i = thread + j * S::kGroupThreads;
      const uint token = i / kHalfChunks;
      copy_ahead<16>(stage.tokens + token * kHalfColumns + (i % kHalfChunks ^ Order::swizzle(token)) * kUnit,
                     quants + std::size_t{tokens_at[j] + step * kHalfChunks} * kUnit);
    }
#pragma unroll
    for (uint j = 0; j < kScales; ++j) {
      const uint i = thread + j * S::kGroupThreads;
      copy_ahead<4>(&stage.token_scales[i / S::kTokens][i % S::kTokens],
                    scales + std::size_t{token_scales_at[j] + step} * kHalfBlocks + i / S::kTokens);
    }
  }
};

/// Adds the terms of one stage to `sums`; the warp has rows and tokens from (row, token) of the tile on.
template <typename S>
__device__ void multiply_stage(const typename S::Stage& stage, uint row, uint token,
                               float (&sums)[S::kRowTiles][kTokenTiles][kSumsPerTile]) {
  const uint lane = lane_index();
  const uint matrix = lane / 8;
  const auto* weight_scales = reinterpret_cast<const uint*>(stage.weight_scales + row + lane / 4);
  const std::byte* weights = stage.weights + (row / gpu::kPanel + matrix % 2) * kHalfBytes +
                             matrix / 2 * kChunkBytes + lane % 8 * kChunk;
  const float* token_scales = &stage.token_scales[0][token + lane % 4 * (2 * kTokenTiles)];
  uint scales[2 * S::kRowTiles];  // of two blocks
#pragma unroll
  for (uint block = 0; block < kHalfBlocks; ++block) {
    if (block % 2 == 0) {
#pragma unroll
      for (uint p = 0; p < 2 * S::kRowTiles; ++p) scales[p] = weight_scales[p * 16 + block / 2];
    }
    uint b[kTokenTiles][2];
    Order::load<kHalfColumns>(stage.tokens + token * kHalfColumns, 2 * block, b);
    float x_scales[kTokenTiles][2];
#pragma unroll
    for (uint n = 0; n < kTokenTiles; n += 2) {
      const auto four = *reinterpret_cast<const float4*>(token_scales + block * S::kTokens + 2 * n);
      x_scales[n][0] = four.x;
      x_scales[n][1] = four.y;
      x_scales[n + 1][0] = four.z;
      x_scales[n + 1][1] = four.w;
    }
#pragma unroll
    for (uint m = 0; m < S::kRowTiles; ++m) {
      uint a[4];
      load_matrices(weights + 2 * m * kHalfBytes + 2 * block * kChunkBytes, a);
      const auto scale_of = [block](uint two) {
        return __half2float(__ushort_as_half(static_cast<unsigned short>(two >> (block % 2 * 16))));
      };
      const ScaledRows rows(scale_of(scales[2 * m]), scale_of(scales[2 * m + 1]));
#pragma unroll
      for (uint n = 0; n < kTokenTiles; ++n) rows.accumulate(a, b[n], x_scales[n], sums[m][n]);
    }
  }
}

/// Writes a lane's totals. kWhole: all of its rows and tokens exist.
template <uint kRowTiles, bool kWhole>
__device__ void write(const float (&totals)[kRowTiles][kTokenTiles][kSumsPerTile], uint first_row,
                      uint first_token, const float* factors, float* y, const MatrixConstants& c) {
  constexpr uint kHalfRows = kMmaRows / 2;
#pragma unroll
  for (uint n = 0; n < kTokenTiles; ++n)
#pragma unroll
    for (uint i = 0; i < 2; ++i) {
      const uint t = first_token + 2 * n + i;
      if (!kWhole && t >= c.tokens) continue;
      const float factor = c.use_factors != 0 ? factors[t] : 1.0F;  // times 1 is the same
      float* target = y + std::size_t{t} * c.y_stride + c.first_out + first_row;
      float values[2 * kRowTiles];
#pragma unroll
      for (uint r = 0; r < 2 * kRowTiles; ++r) values[r] = multiply(totals[r / 2][n][r % 2 * 2 + i], factor);
      if (c.accumulate != 0) {
#pragma unroll
        for (uint r = 0; r < 2 * kRowTiles; ++r) {
          if (kWhole || first_row + r * kHalfRows < c.rows) values[r] = add(target[r * kHalfRows], values[r]);
        }
      }
#pragma unroll
      for (uint r = 0; r < 2 * kRowTiles; ++r) {
        if (kWhole || first_row + r * kHalfRows < c.rows) target[r * kHalfRows] = values[r];
      }
    }
}

/// Waits for the threads of a group.
template <typename S>
__device__ void group_barrier(uint group) {
  if constexpr (S::kGroups == 1) {
    __syncthreads();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(S::kGroupThreads) : "memory");
  }
}

/// Grid (row tiles, token tiles).
template <typename S>
__global__ void __launch_bounds__(S::kThreads, S::kResident)
    matmul_tiled(const std::byte* weights, const std::int8_t* quants, const float* scales,
                 const float* factors, float* y, MatrixConstants c) {
  extern __shared__ __align__(16) std::byte bytes[];
  auto& memory = *reinterpret_cast<typename S::Memory*>(bytes);
  const uint first_panel = blockIdx.x * S::kPanels;
  const uint first_token = blockIdx.y * S::kTokens;
  const uint group = threadIdx.x / S::kGroupThreads;
  const uint thread = threadIdx.x % S::kGroupThreads;
  const uint warp = thread / kWarp;
  const uint row = warp % S::kDown * S::kWarpRows;
  const uint token = warp / S::kDown * kWarpTokens;
  const Fetch<S> source(weights, quants, scales, first_panel, first_token, thread, c);
  auto& stages = memory.stages[group];
  // Segments group, group + kGroups, ...: two stages each.
  const uint steps = group < c.segments ? 2 * ((c.segments - 1 - group) / S::kGroups + 1) : 0;
  const auto segment_of = [group](uint step) { return group + step / 2 * S::kGroups; };

  constexpr uint kAhead = S::kStages - 1;
#pragma unroll
  for (uint step = 0; step < kAhead; ++step) {
    if (step < steps) source.fetch_weights(stages[step], segment_of(step), step % 2);
  }
  after_previous();  // weights are there already
#pragma unroll
  for (uint step = 0; step < kAhead; ++step) {
    if (step < steps) source.fetch_tokens(stages[step], segment_of(step), step % 2);
    commit_copies();
  }

  constexpr uint kOwnTiles = S::kRowTiles / S::kGroups;  // whose totals this thread has
  float sums[S::kRowTiles][kTokenTiles][kSumsPerTile] = {};
  float totals[kOwnTiles][kTokenTiles][kSumsPerTile] = {};
  uint current = 0;
  uint next = kAhead;
  const uint all_steps = 2 * ((c.segments - 1) / S::kGroups + 1);
  for (uint step = 0; step < all_steps; ++step) {
    if (step < steps) {
      wait_copies<kAhead - 1>();
      group_barrier<S>(group);  // this stage is here for all, and all have read the one that is filled next
      if (step + kAhead < steps) {
        const uint ahead = step + kAhead;
        source.fetch_weights(stages[next], segment_of(ahead), ahead % 2);
        source.fetch_tokens(stages[next], segment_of(ahead), ahead % 2);
      }
      commit_copies();
      multiply_stage<S>(stages[current], row, token, sums);
      current = current + 1 == S::kStages ? 0 : current + 1;
      next = next + 1 == S::kStages ? 0 : next + 1;
    }
    if (step % 2 == 0) continue;
    if constexpr (S::kGroups == 1) {
#pragma unroll
      for (uint m = 0; m < S::kRowTiles; ++m)
#pragma unroll
        for (uint n = 0; n < kTokenTiles; ++n)
#pragma unroll
          for (uint i = 0; i < kSumsPerTile; ++i) {
            totals[m][n][i] = add(totals[m][n][i], sums[m][n][i]);
            sums[m][n][i] = 0.0F;
          }
    } else {
      // The segments of all groups, in ascending order; each group adds for some of the rows.
      constexpr uint kFours = S::kSums / 4;
      const uint lane = lane_index();
      __syncthreads();  // the segments before have been added
#pragma unroll
      for (uint m = 0; m < S::kRowTiles; ++m)
#pragma unroll
        for (uint n = 0; n < kTokenTiles; ++n) {
          auto& four = sums[m][n];
          memory.sums[(group * S::kGroupWarps + warp) * kFours + m * kTokenTiles + n][lane] =
              make_float4(four[0], four[1], four[2], four[3]);
#pragma unroll
          for (float& sum : four) sum = 0.0F;
        }
      __syncthreads();
      const uint first_segment = step / 2 * S::kGroups;
#pragma unroll
      for (uint other = 0; other < S::kGroups; ++other) {
        if (first_segment + other >= c.segments) break;
#pragma unroll
        for (uint m = 0; m < kOwnTiles; ++m)
#pragma unroll
          for (uint n = 0; n < kTokenTiles; ++n) {
            const uint tile = (group * kOwnTiles + m) * kTokenTiles + n;
            const float4 four = memory.sums[(other * S::kGroupWarps + warp) * kFours + tile][lane];
            totals[m][n][0] = add(totals[m][n][0], four.x);
            totals[m][n][1] = add(totals[m][n][1], four.y);
            totals[m][n][2] = add(totals[m][n][2], four.z);
            totals[m][n][3] = add(totals[m][n][3], four.w);
          }
      }
    }
  }

  const uint lane = lane_index();
  const uint first_row = first_panel * gpu::kPanel + row + group * kOwnTiles * kMmaRows + lane / 4;
  const uint own_token = first_token + token + lane % 4 * (2 * kTokenTiles);
  const bool whole = (blockIdx.x + 1) * S::kRows <= c.rows && first_token + S::kTokens <= c.tokens;
  if (whole) {
    write<kOwnTiles, true>(totals, first_row, own_token, factors, y, c);
  } else {
    write<kOwnTiles, false>(totals, first_row, own_token, factors, y, c);
  }
}

template <typename S>
uint tiles_of(const MatrixConstants& c) {
  return gpu::divide_up(c.rows, S::kRows) * gpu::divide_up(c.tokens, S::kTokens);
}

template <typename S>
Launch launch_for(const MatrixConstants& c) {
  return {address_of(matmul_tiled<S>),
          dim3(gpu::divide_up(c.rows, S::kRows), gpu::divide_up(c.tokens, S::kTokens)), dim3(S::kThreads),
          static_cast<unsigned>(sizeof(typename S::Memory)), 5};
}

using Large = Shape<4, 2, 2, 1, 4, 2>;  // 128 rows, 64 tokens; two workgroups on a multiprocessor
using Small = Shape<2, 2, 2, 2, 3, 1>;  // 64 rows, 64 tokens, two segments at a time

}  // namespace

bool fills_device(const MatrixConstants& c) {
  return tiles_of<Large>(c) >= kEnoughGroups;
}

Launch plan_matmul_tiled(const MatrixConstants& c) {
  // Large tiles read less, small ones leave fewer multiprocessors without work.
  return fills_device(c) ? launch_for<Large>(c) : launch_for<Small>(c);
}

}  // namespace inferno::cuda
