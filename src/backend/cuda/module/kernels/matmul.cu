// Packed int8 weights times some tokens, on the tensor cores: a product of 16 rows, 32 columns and 8 tokens
// gives exactly the integer dot product of a block, so the sums are those of the matrix-vector kernel.

#include "backend/cuda/module/kernels/common.cuh"
#include "backend/cuda/module/kernels/matmul.hpp"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::MatrixConstants;

constexpr uint kMostWarps = 12;
constexpr uint kSegmentChunks = arith::kSegment / kChunk;
constexpr uint kSumsPerTile = 4;  // of a lane, of a product

/// Warps of a workgroup: each takes a segment of the tile in turn, so few tokens still fill the device.
constexpr uint warps_for(uint segments) {
  return segments <= kMostWarps ? segments : 8;
}

/// A warp's part: a segment of kRowTiles times 16 rows and kTokenTiles times 8 tokens.
template <uint kRowTiles, uint kTokenTiles>
struct Part {
  using Order = TokenOrder<kTokenTiles>;
  static constexpr uint kPanels = 2 * kRowTiles;
  static constexpr uint kTokens = Order::kTokens;
  static constexpr uint kSums = kRowTiles * kTokenTiles * kSumsPerTile;

  /// In shared memory: the tokens; when they are used up the sums take their place.
  union alignas(16) Memory {
    struct {
      std::byte quants[kTokens * arith::kSegment];  // [token][chunk, swizzled]
      float scales[kSegmentBlocks][kTokens];
    } tokens;
    float sums[kSums][kWarp];
  };

  /// The weights, in registers as the products take them: asked for at once, before the tokens are known.
  struct Weights {
    uint a[kRowTiles][kSegmentBlocks][4];
    int4 scales[kPanels];

    /// `panels`: the segment of each.
    __device__ void load(const std::byte* (&panels)[kPanels]) {
      const uint lane = lane_index();
#pragma unroll
      for (uint p = 0; p < kPanels; ++p) {
        scales[p] = __ldg(reinterpret_cast<const int4*>(panels[p]) + lane / 4);
        const auto* words = reinterpret_cast<const uint*>(panels[p] + kScaleBytes) + lane;
#pragma unroll
        for (uint chunk = 0; chunk < kSegmentChunks; ++chunk) {
          a[p / 2][chunk / 2][chunk % 2 * 2 + p % 2] = __ldg(words + chunk * (kChunkBytes / 4));
        }
      }
    }
  };

  /// Copies the segment of the tokens from `first` on; behind the last it is the last one's.
  static __device__ void fetch(Memory& memory, const std::int8_t* quants, const float* scales, uint first,
                               uint segment, const MatrixConstants& c) {
    const uint lane = lane_index();
    const auto row_of = [&](uint token) {
      return std::size_t{min(first + token, c.tokens - 1)} * c.segments + segment;
    };
#pragma unroll
    for (uint j = 0; j < kTokens * kSegmentChunks / kWarp; ++j) {
      const uint token = j * (kWarp / kSegmentChunks) + lane / kSegmentChunks;
      const uint chunk = lane % kSegmentChunks;
      copy_ahead<16>(
          memory.tokens.quants + token * arith::kSegment + (chunk ^ Order::swizzle(token)) * kChunk,
          quants + row_of(token) * arith::kSegment + chunk * kChunk);
    }
#pragma unroll
    for (uint j = 0; j < kTokens * kSegmentBlocks / kWarp; ++j) {
      const uint i = j * kWarp + lane;
      copy_ahead<4>(&memory.tokens.scales[i / kTokens][i % kTokens],
                    scales + row_of(i % kTokens) * kSegmentBlocks + i / kTokens);
    }
  }

  static __device__ void multiply_segment(const Memory& memory, const Weights& weights,
                                          float (&sums)[kRowTiles][kTokenTiles][kSumsPerTile]) {
    const uint lane = lane_index();
#pragma unroll
    for (uint block = 0; block < kSegmentBlocks; ++block) {
      uint b[kTokenTiles][2];
      Order::template load<arith::kSegment>(memory.tokens.quants, 2 * block, b);
      float x_scales[kTokenTiles][2];
#pragma unroll
      for (uint n = 0; n < kTokenTiles; n += 2) {
        const auto four = *reinterpret_cast<const float4*>(
            &memory.tokens.scales[block][lane % 4 * (2 * kTokenTiles) + 2 * n]);
        x_scales[n][0] = four.x;
        x_scales[n][1] = four.y;
        x_scales[n + 1][0] = four.z;
        x_scales[n + 1][1] = four.w;
      }
#pragma unroll
      for (uint m = 0; m < kRowTiles; ++m) {
        const ScaledRows rows(half_of(weights.scales[2 * m], block),
                              half_of(weights.scales[2 * m + 1], block));
#pragma unroll
        for (uint n = 0; n < kTokenTiles; ++n) {
          rows.accumulate(weights.a[m][block], b[n], x_scales[n], sums[m][n]);
        }
      }
    }
  }
};

/// Grid (row tiles, token tiles); warps_for(segments) warps.
template <uint kRowTiles, uint kTokenTiles>
__global__ void __launch_bounds__(kMostWarps* kWarp)
    matmul_q8(const std::byte* weights, const std::int8_t* quants, const float* scales, const float* factors,
              float* y, MatrixConstants c) {
  using P = Part<kRowTiles, kTokenTiles>;
  extern __shared__ __align__(16) std::byte bytes[];
  auto* parts = reinterpret_cast<typename P::Memory*>(bytes);  // [warps]
  const uint warp = threadIdx.x / kWarp;
  const uint warps = blockDim.x / kWarp;
  const uint first_row = blockIdx.x * kRowTiles * kMmaRows;
  const uint first_token = blockIdx.y * P::kTokens;

  // What lies behind the last row or token is computed from the last one and thrown away.
  const auto load_weights = [&](uint segment, typename P::Weights& loaded) {
    const uint last = (c.rows - 1) / gpu::kPanel;
    const std::byte* panels[P::kPanels];
#pragma unroll
    for (uint p = 0; p < P::kPanels; ++p) {
      const uint panel = min(first_row / gpu::kPanel + p, last);
      panels[p] = weights + (std::size_t{panel} * c.segments + segment) * kQ8SegmentBytes;
    }
    loaded.load(panels);
  };
  typename P::Weights loaded;
  load_weights(min(warp, c.segments - 1), loaded);
  after_previous();  // weights are on their way already

  constexpr uint kOutputs = P::kSums * kWarp;
  auto* totals = reinterpret_cast<float*>(parts + warps);  // [outputs], if there are more segments than warps
  for (uint first = 0; first < c.segments; first += warps) {
    const uint segment = first + warp;
    if (segment < c.segments) {
      if (first > 0) load_weights(segment, loaded);
      P::fetch(parts[warp], quants, scales, first_token, segment, c);
      commit_copies();
      wait_copies<0>();
      __syncwarp();
      float sums[kRowTiles][kTokenTiles][kSumsPerTile] = {};
      P::multiply_segment(parts[warp], loaded, sums);
      __syncwarp();
#pragma unroll
      for (uint m = 0; m < kRowTiles; ++m)
#pragma unroll
        for (uint n = 0; n < kTokenTiles; ++n)
#pragma unroll
          for (uint i = 0; i < kSumsPerTile; ++i) {
            parts[warp].sums[(m * kTokenTiles + n) * kSumsPerTile + i][lane_index()] = sums[m][n][i];
          }
    }
    __syncthreads();
    const uint count = min(warps, c.segments - first);
    for (uint o = threadIdx.x; o < kOutputs; o += blockDim.x) {
      float value = first == 0 ? 0.0F : totals[o];
      for (uint i = 0; i < count; ++i) value = add(value, parts[i].sums[o / kWarp][o % kWarp]);
      if (first + warps < c.segments) {
        totals[o] = value;
        continue;
      }
      const uint lane = o % kWarp;
      const uint i = o / kWarp % kSumsPerTile;
      const uint tile = o / kWarp / kSumsPerTile;
      const uint row = first_row + tile / kTokenTiles * kMmaRows + i / 2 * (kMmaRows / 2) + lane / 4;
      const uint token = first_token + P::Order::of_column(tile % kTokenTiles, lane % 4 * 2 + i % 2);
      if (row >= c.rows || token >= c.tokens) continue;
      if (c.use_factors != 0) value = multiply(value, factors[token]);
      float& target = y[std::size_t{token} * c.y_stride + c.first_out + row];
      target = c.accumulate != 0 ? add(target, value) : value;
    }
    __syncthreads();
  }
}

template <uint kRowTiles, uint kTokenTiles>
Launch launch_for(const MatrixConstants& c, unsigned shared_limit) {
  using P = Part<kRowTiles, kTokenTiles>;
  constexpr auto kTotalBytes = static_cast<unsigned>(P::kSums * kWarp * sizeof(float));
  uint warps = warps_for(c.segments);
  while (warps > 1 && warps * sizeof(typename P::Memory) + kTotalBytes > shared_limit) --warps;
  return {address_of(matmul_q8<kRowTiles, kTokenTiles>),
          dim3(gpu::divide_up(c.rows, kRowTiles * kMmaRows), gpu::divide_up(c.tokens, P::kTokens)),
          dim3(warps * kWarp), static_cast<unsigned>(warps * sizeof(typename P::Memory)) + kTotalBytes, 5};
}

/// Fewer rows for a workgroup where there would be too few workgroups.
template <uint kTokenTiles>
Launch launch_for_rows(const MatrixConstants& c, unsigned shared_limit) {
  const uint groups =
      gpu::divide_up(c.rows, 2 * kMmaRows) * gpu::divide_up(c.tokens, kTokenTiles * kMmaTokens);
  return groups >= kEnoughGroups ? launch_for<2, kTokenTiles>(c, shared_limit)
                                 : launch_for<1, kTokenTiles>(c, shared_limit);
}

}  // namespace

Launch plan_matmul(const Command& command, unsigned shared_limit) {
  const auto& c = constants_of<MatrixConstants>(command);
  constexpr uint kFewTokens = 2 * kMmaTokens;
  if (c.tokens >= kTiledTokens || (c.tokens > kFewTokens && fills_device(c)))
    return plan_matmul_tiled(c, shared_limit);
  return c.tokens <= kFewTokens ? launch_for_rows<2>(c, shared_limit) : launch_for_rows<4>(c, shared_limit);
}

}  // namespace inferno::cuda
