// Packed int8 weights times a prompt's tokens, on the tensor cores: tiles of weights and tokens are copied to
// shared memory a few halves of a segment ahead of the products. What bounds it is not the tensor cores but
// the three float operations for each block and output: everything else is kept out of their way.

#include "backend/cuda/module/kernels/common.cuh"
#include "backend/cuda/module/kernels/matmul.hpp"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::MatmulSwigluConstants;
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
  /// Products of a warp whose totals one of the groups' warps has: numbers group * kOwn and so on.
  static constexpr uint kOwn = kRowTiles * kTokenTiles / kGroups;
  static_assert(kRowTiles * kTokenTiles % kGroups == 0);

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

/// What a thread copies of each stage. Offsets count units of 16 bytes, so that 32 bits are enough.
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
  uint weights_at[kWeights], weight_scales_at, tokens_at[kTokens], tokens_to[kTokens];
  std::size_t token_scales_at[kScales];  // in floats

  /// `panel_of(p)`: the matrix' panel that is the tile's panel p. Behind the last token there is the last one
  /// again; what is computed from it is thrown away.
  template <typename PanelOf>
  __device__ Fetch(const std::byte* from, const std::int8_t* x, const float* x_scales, uint group_thread,
                   PanelOf&& panel_of, uint first_token, uint tokens, uint segments)
      : weights(from), quants(x), scales(x_scales), thread(group_thread) {
    const auto panel_at = [&](uint panel) { return panel_of(panel) * (segments * kSegmentUnits); };
    const auto token_at = [&](uint token) { return min(first_token + token, tokens - 1) * segments; };
#pragma unroll
    for (uint j = 0; j < kWeights; ++j) {
      const uint i = thread + j * S::kGroupThreads;
      weights_at[j] = panel_at(i / kPieces) + kScaleBytes / kUnit + i % kPieces;
    }
    weight_scales_at = panel_at(thread % S::kRows / gpu::kPanel) + thread % gpu::kPanel;
#pragma unroll
    for (uint j = 0; j < kTokens; ++j) {
      const uint i = thread + j * S::kGroupThreads;
      const uint token = i / kHalfChunks;
      tokens_at[j] = token_at(token) * (arith::kSegment / kUnit) + i % kHalfChunks;
      tokens_to[j] = token * kHalfColumns + (i % kHalfChunks ^ Order::swizzle(token)) * kUnit;
    }
#pragma unroll
    for (uint j = 0; j < kScales; ++j) {
      const uint i = thread + j * S::kGroupThreads;
      token_scales_at[j] = std::size_t{token_at(i % S::kTokens)} * kSegmentBlocks + i / S::kTokens;
    }
  }

  __device__ void fetch_weights(typename S::Stage& stage, uint segment, uint half) const {
    const std::byte* from = weights + std::size_t{segment} * kQ8SegmentBytes;
    const std::byte* from_half = from + half * kHalfBytes;
    const auto target = shared_address(stage.weights) + thread * kUnit;
#pragma unroll
    for (uint j = 0; j < kWeights; ++j) {
      copy_ahead<16>(target + j * S::kGroupThreads * kUnit, from_half + std::size_t{weights_at[j]} * kUnit);
    }
    if (S::kRows >= S::kGroupThreads || thread < S::kRows) {
      copy_ahead<8>(&stage.weight_scales[thread],
                    from + half * sizeof(uint2) + std::size_t{weight_scales_at} * kUnit);
    }
  }

  __device__ void fetch_tokens(typename S::Stage& stage, uint segment, uint half) const {
    const uint step = 2 * segment + half;
    const std::int8_t* from = quants + step * kHalfColumns;
    const auto target = shared_address(stage.tokens);
#pragma unroll
    for (uint j = 0; j < kTokens; ++j) {
      copy_ahead<16>(target + tokens_to[j], from + std::size_t{tokens_at[j]} * kUnit);
    }
    const float* scales_from = scales + step * kHalfBlocks;
    const auto scales_target = shared_address(stage.token_scales) + thread * sizeof(float);
#pragma unroll
    for (uint j = 0; j < kScales; ++j) {
      copy_ahead<4>(static_cast<uint>(scales_target + j * S::kGroupThreads * sizeof(float)),
                    scales_from + token_scales_at[j]);
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

/// Waits for the threads of a group.
template <typename S>
__device__ void group_barrier(uint group) {
  if constexpr (S::kGroups == 1) {
    __syncthreads();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(S::kGroupThreads) : "memory");
  }
}

/// Where a thread works in its tile.
template <typename S>
struct Place {
  uint group = threadIdx.x / S::kGroupThreads;
  uint thread = threadIdx.x % S::kGroupThreads;
  uint warp = thread / kWarp;
  uint row = warp % S::kDown * S::kWarpRows;
  uint token = warp / S::kDown * kWarpTokens;

  /// The row of the tile that half `half` of the thread's product `own` belongs to, and the token of its
  /// column `i`.
  __device__ uint row_of(uint own, uint half) const {
    return row + (group * S::kOwn + own) / kTokenTiles * kMmaRows + half * (kMmaRows / 2) + lane_index() / 4;
  }
  __device__ uint token_of(uint own, uint i) const {
    return token + lane_index() % 4 * (2 * kTokenTiles) + (group * S::kOwn + own) % kTokenTiles * 2 + i;
  }
};

/// The tile's products: those that the thread owns. Waits for the kernel before when weights are on their
/// way.
template <typename S>
__device__ __forceinline__ void multiply_tile(typename S::Memory& memory, const Fetch<S>& source,
                                              const Place<S>& place, uint segments,
                                              float (&totals)[S::kOwn][kSumsPerTile]) {
  const uint group = place.group;
  auto& stages = memory.stages[group];
  // Segments group, group + kGroups, ...: two stages each.
  const uint steps = group < segments ? 2 * ((segments - 1 - group) / S::kGroups + 1) : 0;
  const auto segment_of = [group](uint step) { return group + step / 2 * S::kGroups; };

  constexpr uint kAhead = S::kStages - 1;
#pragma unroll
  for (uint step = 0; step < kAhead; ++step) {
    if (step < steps) source.fetch_weights(stages[step], segment_of(step), step % 2);
  }
  after_previous();
#pragma unroll
  for (uint step = 0; step < kAhead; ++step) {
    if (step < steps) source.fetch_tokens(stages[step], segment_of(step), step % 2);
    commit_copies();
  }

  float sums[S::kRowTiles][kTokenTiles][kSumsPerTile] = {};
#pragma unroll
  for (auto& tile : totals)
#pragma unroll
    for (float& total : tile) total = 0.0F;
  uint current = 0;
  uint next = kAhead;
  const uint all_steps = 2 * ((segments - 1) / S::kGroups + 1);
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
      multiply_stage<S>(stages[current], place.row, place.token, sums);
      current = current + 1 == S::kStages ? 0 : current + 1;
      next = next + 1 == S::kStages ? 0 : next + 1;
    }
    if (step % 2 == 0) continue;
    if constexpr (S::kGroups == 1) {
#pragma unroll
      for (uint tile = 0; tile < S::kOwn; ++tile)
#pragma unroll
        for (uint i = 0; i < kSumsPerTile; ++i) {
          float& sum = sums[tile / kTokenTiles][tile % kTokenTiles][i];
          totals[tile][i] = add(totals[tile][i], sum);
          sum = 0.0F;
        }
    } else {
      // The segments of all groups, in ascending order; each group adds for some of the products.
      constexpr uint kTiles = S::kRowTiles * kTokenTiles;
      const uint lane = lane_index();
      __syncthreads();  // the segments before have been added
#pragma unroll
      for (uint tile = 0; tile < kTiles; ++tile) {
        auto& four = sums[tile / kTokenTiles][tile % kTokenTiles];
        memory.sums[(group * S::kGroupWarps + place.warp) * kTiles + tile][lane] =
            make_float4(four[0], four[1], four[2], four[3]);
#pragma unroll
        for (float& sum : four) sum = 0.0F;
      }
      __syncthreads();
      const uint first_segment = step / 2 * S::kGroups;
#pragma unroll
      for (uint other = 0; other < S::kGroups; ++other) {
        if (first_segment + other >= segments) break;
#pragma unroll
        for (uint own = 0; own < S::kOwn; ++own) {
          const uint tile = group * S::kOwn + own;
          const float4 four = memory.sums[(other * S::kGroupWarps + place.warp) * kTiles + tile][lane];
          totals[own][0] = add(totals[own][0], four.x);
          totals[own][1] = add(totals[own][1], four.y);
          totals[own][2] = add(totals[own][2], four.z);
          totals[own][3] = add(totals[own][3], four.w);
        }
      }
    }
  }
}

/// Writes a thread's totals to y, from the tile's first row and token on. kWhole: all of the tile exists.
template <typename S, bool kWhole>
__device__ __forceinline__ void write_tile(const float (&totals)[S::kOwn][kSumsPerTile],
                                           const Place<S>& place, uint first_row, uint first_token,
                                           const float* factors, float* y, const MatrixConstants& c) {
  float values[S::kOwn][kSumsPerTile];
  const auto visit = [&](auto&& act) {
#pragma unroll
    for (uint own = 0; own < S::kOwn; ++own)
#pragma unroll
      for (uint i = 0; i < kSumsPerTile; ++i) {
        const uint row = first_row + place.row_of(own, i / 2);
        const uint token = first_token + place.token_of(own, i % 2);
        if (!kWhole && (row >= c.rows || token >= c.tokens)) continue;
        act(values[own][i], totals[own][i], token, y[std::size_t{token} * c.y_stride + c.first_out + row]);
      }
  };
  visit([&](float& value, float total, uint token, const float&) {
    value = c.use_factors != 0 ? multiply(total, factors[token]) : total;
  });
  if (c.accumulate != 0) {
    visit([](float& value, float, uint, const float& target) { value = add(target, value); });
  }
  visit([](float& value, float, uint, float& target) { target = value; });
}

/// Grid (row tiles, token tiles).
template <typename S>
__global__ void __launch_bounds__(S::kThreads, S::kResident)
    matmul_tiled(const std::byte* weights, const std::int8_t* quants, const float* scales,
                 const float* factors, float* y, MatrixConstants c) {
  extern __shared__ __align__(16) std::byte bytes[];
  auto& memory = *reinterpret_cast<typename S::Memory*>(bytes);
  const Place<S> place;
  const uint last_panel = (c.rows - 1) / gpu::kPanel;
  const uint first_token = blockIdx.y * S::kTokens;
  const Fetch<S> source(
      weights, quants, scales, place.thread,
      [&](uint panel) { return min(blockIdx.x * S::kPanels + panel, last_panel); }, first_token, c.tokens,
      c.segments);
  float totals[S::kOwn][kSumsPerTile];
  multiply_tile<S>(memory, source, place, c.segments, totals);
  const uint first_row = blockIdx.x * S::kRows;
  if (first_row + S::kRows <= c.rows && first_token + S::kTokens <= c.tokens) {
    write_tile<S, true>(totals, place, first_row, first_token, factors, y, c);
  } else {
    write_tile<S, false>(totals, place, first_row, first_token, factors, y, c);
  }
}

/// Half of a tile's rows are of the gate, half the same of up; what comes of them is activated and quantized.
/// Grid (F / (kRows / 2), token tiles).
template <typename S>
__global__ void __launch_bounds__(S::kThreads, S::kResident)
    matmul_swiglu(const std::byte* weights, const std::int8_t* quants, const float* scales,
                  const float* factors, float* floats, std::int8_t* out_quants, float* out_scales,
                  MatmulSwigluConstants c) {
  extern __shared__ __align__(16) std::byte bytes[];
  auto& memory = *reinterpret_cast<typename S::Memory*>(bytes);
  const Place<S> place;
  constexpr uint kRows = S::kRows / 2;
  constexpr uint kPanels = S::kPanels / 2;
  const uint panels = c.rows / gpu::kPanel;  // of each half
  const uint first_token = blockIdx.y * S::kTokens;
  const Fetch<S> source(
      weights, quants, scales, place.thread,
      [&](uint panel) {
        return min(blockIdx.x * kPanels + panel % kPanels, panels - 1) + panel / kPanels * panels;
      },
      first_token, c.tokens, c.segments);
  float totals[S::kOwn][kSumsPerTile];
  multiply_tile<S>(memory, source, place, c.segments, totals);

  constexpr uint kStride =
      S::kRows + 1;  // a token's rows, so that what a warp writes lies in different banks
  static_assert(S::kTokens * kStride * sizeof(float) <= sizeof(typename S::Memory));
  auto* products = reinterpret_cast<float*>(bytes);
  __syncthreads();  // all have read what stands there
#pragma unroll
  for (uint own = 0; own < S::kOwn; ++own)
#pragma unroll
    for (uint i = 0; i < kSumsPerTile; ++i) {
      const uint token = place.token_of(own, i % 2);
      products[token * kStride + place.row_of(own, i / 2)] =
          multiply(totals[own][i], factors[min(first_token + token, c.tokens - 1)]);
    }
  __syncthreads();
  // A thread has four rows, eight threads a block of 32.
  constexpr uint kFours = kRows / 4;
  static_assert(S::kTokens * kFours % S::kThreads == 0);
  for (uint i = threadIdx.x; i < S::kTokens * kFours; i += S::kThreads) {
    const float* gate = products + i / kFours * kStride + i % kFours * 4;
    float values[4];
#pragma unroll
    for (uint k = 0; k < 4; ++k) values[k] = arith::swiglu(gate[k], gate[kRows + k]);
    const uint largest = largest_of_fours(values);
    const uint token = first_token + i / kFours;
    const uint row = blockIdx.x * kRows + i % kFours * 4;
    if (token >= c.tokens || row >= c.rows) continue;  // whole blocks: rows are a multiple of 32
    const std::size_t at = std::size_t{token} * c.stride + row;
    if ((c.write & gpu::kWriteFloats) != 0) {
      *reinterpret_cast<float4*>(floats + at) = make_float4(values[0], values[1], values[2], values[3]);
    }
    if ((c.write & gpu::kWriteQuants) == 0) continue;
    *reinterpret_cast<uint*>(out_quants + at) = quantize_four(values, largest);
    if (threadIdx.x % 8 == 0) out_scales[at / arith::kBlock] = arith::block_scale(largest, arith::kInt8Step);
  }
}

template <typename S>
uint tiles_of(uint rows, uint tokens) {
  return gpu::divide_up(rows, S::kRows) * gpu::divide_up(tokens, S::kTokens);
}

template <typename S>
Launch launch_for(const MatrixConstants& c) {
  return {address_of(matmul_tiled<S>),
          dim3(gpu::divide_up(c.rows, S::kRows), gpu::divide_up(c.tokens, S::kTokens)), dim3(S::kThreads),
          static_cast<unsigned>(sizeof(typename S::Memory)), 5};
}

template <typename S>
Launch launch_for(const MatmulSwigluConstants& c) {
  return {address_of(matmul_swiglu<S>),
          dim3(gpu::divide_up(c.rows, S::kRows / 2), gpu::divide_up(c.tokens, S::kTokens)), dim3(S::kThreads),
          static_cast<unsigned>(sizeof(typename S::Memory)), 7};
}

using Large = Shape<4, 2, 2, 1, 4, 2>;   // 128 rows, 64 tokens; two workgroups on a multiprocessor
using Small = Shape<2, 2, 2, 4, 2, 1>;   // 64 rows, 64 tokens, four segments at a time
using Thin = Shape<1, 2, 2, 4, 3, 1>;    // 32 rows, 64 tokens, four segments at a time
using Modest = Shape<2, 2, 2, 1, 4, 1>;  // 64 rows, 64 tokens, for devices with little shared memory

template <typename S>
bool fits(unsigned shared_limit) {
  return sizeof(typename S::Memory) <= shared_limit;
}

}  // namespace

bool fills_device(const MatrixConstants& c) {
  return tiles_of<Large>(c.rows, c.tokens) >= kEnoughGroups;
}

Launch plan_matmul_tiled(const MatrixConstants& c, unsigned shared_limit) {
  if (has_large_tiles(shared_limit) && large_tiles_fill_device(c.rows, c.tokens)) return plan_matmul_large(c);
  if (!fits<Large>(shared_limit)) return launch_for<Modest>(c);
  // Large tiles read less, small ones leave fewer multiprocessors without work.
  if (fills_device(c)) return launch_for<Large>(c);
  if (!fits<Small>(shared_limit)) return launch_for<Modest>(c);
  return tiles_of<Small>(c.rows, c.tokens) >= kEnoughGroups ? launch_for<Small>(c) : launch_for<Thin>(c);
}

Launch plan_matmul_swiglu(const Command& command, unsigned shared_limit) {
  const auto& c = constants_of<MatmulSwigluConstants>(command);
  if (has_large_tiles(shared_limit) && large_tiles_fill_device(2 * c.rows, c.tokens))
    return plan_matmul_swiglu_large(c);
  const bool large = tiles_of<Large>(2 * c.rows, c.tokens) >= kEnoughGroups;
  if (!(large ? fits<Large>(shared_limit) : fits<Small>(shared_limit))) return launch_for<Modest>(c);
  return large ? launch_for<Large>(c) : launch_for<Small>(c);
}

}  // namespace inferno::cuda
