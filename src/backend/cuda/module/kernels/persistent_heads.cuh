#pragma once

#include "backend/cuda/module/kernels/persistent_cache.cuh"

/// What attention in the persistent kernels is put together from: heads made ready, keys and values of a
/// warp's positions in its registers, sums over them. A warp has 32 positions of a split, a lane one of them.
namespace inferno::cuda::persistent {

/// The query heads of the group, the new key and the new value, a warp each: from words to int8.
template <typename Model>
__device__ __forceinline__ void prepare_heads(const PersistentLayer& layer, uint kv_head, uint batch_row,
                                              uint epoch) {
  constexpr uint kDim = Model::kHeadDim;
  constexpr uint kBlocks = kDim / arith::kBlock;
  constexpr uint kGroup = Model::kGroup;
  auto& own = block_of<Model>().attention;
  const uint lane = thread_index() % kWarp;
  const uint position = shared().position[batch_row];
#pragma unroll 1
  for (uint role = thread_index() / kWarp; role < kGroup + 2; role += kWarps) {
    const bool query = role < kGroup;
    const bool key = role == kGroup;
    const uint first = query ? (kv_head * kGroup + role) * kDim
                             : (Model::kHeads + (key ? 0 : Model::kKvHeads) + kv_head) * kDim;
    float weight[kBlocks], cosine[kBlocks / 2], sine[kBlocks / 2];
    if (query || key) {
      const float* norm = query ? layer.query_norm : layer.key_norm;
      const float* rope = model().rope + std::size_t{position} * kDim;
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) weight[b] = __ldg(norm + b * kWarp + lane);
#pragma unroll
      for (uint b = 0; b < kBlocks / 2; ++b) {
        cosine[b] = __ldg(rope + b * kWarp + lane);
        sine[b] = __ldg(rope + kDim / 2 + b * kWarp + lane);
      }
    }
    float x[kBlocks];
    const std::uint64_t* words = model().exchange.qkv + batch_row * Model::kQkvRows + first + lane;
    Patience patience(Awaited::heads);
    for (;;) {
      std::uint64_t word[kBlocks];
      bool here = true;
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) word[b] = read_word(words + b * kWarp);
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) {
        here = here && is_of(word[b], epoch);
        x[b] = value_of(word[b]);
      }
      if (here) break;
      patience.lose();
    }
    if (query || key) {
      float sum = 0.0F;
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) sum = add(sum, multiply(x[b], x[b]));
      sum = tree_sum(sum);
      const float factor = arith::reciprocal_sqrt(add(multiply(sum, model().inverse_head), model().epsilon));
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) x[b] = multiply(multiply(x[b], factor), weight[b]);
#pragma unroll
      for (uint b = 0; b < kBlocks / 2; ++b) {
        const float low = x[b];
        const float high = x[b + kBlocks / 2];
        x[b] = arith::subtract(multiply(low, cosine[b]), multiply(high, sine[b]));
        x[b + kBlocks / 2] = add(multiply(high, cosine[b]), multiply(low, sine[b]));
      }
    }
    // Step by step for all blocks, not block by block: what does not depend on each other overlaps.
    uint largest[kBlocks];
    float inverse[kBlocks];
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) largest[b] = largest_magnitude(x[b]);
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) inverse[b] = block_inverse(largest[b], arith::kInt8Levels);
    std::int8_t* values = query ? own.queries[role] : own.new_rows[key ? 0 : 1];
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b)
      values[b * kWarp + lane] = static_cast<std::int8_t>(arith::quantize(x[b], inverse[b]));
    uint of_lane = largest[0];
#pragma unroll
    for (uint b = 1; b < kBlocks; ++b) of_lane = lane == b ? largest[b] : of_lane;
    float scale = block_scale(of_lane, arith::kInt8Step);
    if (query) scale = multiply(scale, model().softmax_scale);
    if (lane < kBlocks) (query ? own.query_scales[role] : own.new_scales[key ? 0 : 1])[lane] = scale;
  }
}

/// Keys of a warp's 32 positions as its lanes have them: kLanes neighbours share a row, 16 bytes each, and a
/// lane has the scales of its own position, warp * 32 + lane.
template <uint kDim>
struct Keys {
  static constexpr uint kBlocks = kDim / arith::kBlock;
  static constexpr uint kLanes = kDim / 16;
  static constexpr uint kRows = kLanes;          // of a lane
  static constexpr uint kStep = kWarp / kLanes;  // lane's rows: lane / kLanes + i * kStep
  int4 row[kRows];
  float scales[kBlocks];

  /// Of a warp that has positions below `count`; where the others are, the block has room for them.
  __device__ __forceinline__ void load(const CacheHead<kDim>& head, uint count, uint warp, uint lane) {
    if (warp * kWarp >= count) return;
    const std::byte* first = head.key(warp * kWarp) + lane * 16;
#pragma unroll
    for (uint i = 0; i < kRows; ++i) row[i] = __ldcg(reinterpret_cast<const int4*>(first + i * kStep * kDim));
    const float* own = head.key_scales(warp * kWarp + lane);
#pragma unroll
    for (uint b = 0; b < kBlocks; b += 2) {
      const float2 two = __ldcg(reinterpret_cast<const float2*>(own + b));
      scales[b] = two.x;
      scales[b + 1] = two.y;
    }
  }
  /// The same from shared memory: `rows` and `scales` of the warp's first position. Where there is nothing,
  /// it does not matter what is read.
  __device__ __forceinline__ void load_tile(const std::byte* rows, const std::byte* all_scales, uint lane) {
#pragma unroll
    for (uint i = 0; i < kRows; ++i) row[i] = reinterpret_cast<const int4*>(rows + i * kStep * kDim)[lane];
    const auto* own = reinterpret_cast<const float2*>(all_scales) + lane * (kBlocks / 2);
#pragma unroll
    for (uint b = 0; b < kBlocks; b += 2) {
      scales[b] = own[b / 2].x;
      scales[b + 1] = own[b / 2].y;
    }
  }
  /// The current position's key is not in the cache yet.
  template <typename Memory>
  __device__ __forceinline__ void insert(const Memory& own, uint newest, uint warp, uint lane) {
    if (newest / kWarp != warp) return;
#pragma unroll
    for (uint i = 0; i < kRows; ++i) {
      if (warp * kWarp + lane / kLanes + i * kStep == newest)
        row[i] = reinterpret_cast<const int4*>(own.new_rows[0])[lane % kLanes];
    }
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) {
      if (warp * kWarp + lane == newest) scales[b] = own.new_scales[0][b];
    }
  }
  /// The score of the lane's position.
  template <typename Memory>
  __device__ __forceinline__ float score(Memory& own, uint query, uint warp, uint lane) const {
    const int4 chunk = reinterpret_cast<const int4*>(own.queries[query])[lane % kLanes];
    int* dots = own.dots[warp];
#pragma unroll
    for (uint i = 0; i < kRows; ++i) dots[i * kWarp + lane] = dot16(row[i], chunk, 0);
    __syncwarp();
    float sum = 0.0F;
#pragma unroll
    for (uint b = 0; b < kBlocks; b += 2) {
      const int4 four = reinterpret_cast<const int4*>(dots + lane * kLanes)[b / 2];
      const float first = dot_to_float(kDotStart + four.x + four.y);
      const float second = dot_to_float(kDotStart + four.z + four.w);
      sum = add(sum, multiply(multiply(first, scales[b]), own.query_scales[query][b]));
      sum = add(sum, multiply(multiply(second, scales[b + 1]), own.query_scales[query][b + 1]));
    }
    __syncwarp();
    return sum;
  }
};

/// Four dot products of four bytes: each sum grows by signed `values` times unsigned `weights`.
__device__ inline int dot4(uint values, uint weights, int sum) {
  asm("dp4a.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(values), "r"(weights));
  return sum;
}

/// Values of a warp's positions, kDims of their dimensions: kLanes neighbours share a row, 16 bytes each.
template <uint kHeadDim, uint kDims>
struct Values {
  static constexpr uint kLanes = kDims / kPartDims;
  static constexpr uint kRows = kLanes;          // of a lane
  static constexpr uint kStep = kWarp / kLanes;  // lane's rows: lane / kLanes + i * kStep
  int4 row[kRows];

  __device__ __forceinline__ void load(const CacheHead<kHeadDim>& head, uint first, uint count, uint warp,
                                       uint lane) {
    if (warp * kWarp >= count) return;
    const std::byte* mine = head.value(warp * kWarp + lane / kLanes) + first + lane % kLanes * kPartDims;
#pragma unroll
    for (uint i = 0; i < kRows; ++i)
      row[i] = __ldcg(reinterpret_cast<const int4*>(mine + i * kStep * kHeadDim));
  }
  /// The same from shared memory, whole rows: `rows` of the warp's first position.
  __device__ __forceinline__ void load_tile(const std::byte* rows, uint lane) {
#pragma unroll
    for (uint i = 0; i < kRows; ++i)
      row[i] = reinterpret_cast<const int4*>(rows + i * kStep * kHeadDim)[lane];
  }
  template <typename Memory>
  __device__ __forceinline__ void insert(const Memory& own, uint first, uint newest, uint warp, uint lane) {
    if (newest / kWarp != warp) return;
#pragma unroll
    for (uint i = 0; i < kRows; ++i) {
      if (warp * kWarp + lane / kLanes + i * kStep == newest)
        row[i] = *reinterpret_cast<const int4*>(own.new_rows[1] + first + lane % kLanes * kPartDims);
    }
  }
  /// Where the weight of a warp's position stands, so that a lane's rows are neighbours.
  __device__ static uint place(uint position) { return position % kStep * kRows + position / kStep; }

  /// The lane's rows, weighted: sums [heads][16].
  template <uint kHeads, typename Memory>
  __device__ __forceinline__ void weigh(const Memory& own, uint warp, uint lane,
                                        int (&sums)[kHeads][kPartDims]) const {
    const uint block = lane % kLanes * kPartDims / arith::kBlock;
    if constexpr (kRows >= 4) {
      // Four rows at a time: their bytes of a dimension become a word.
      constexpr uint kFours = kRows / 4;
      uint high[kHeads][kFours], low[kHeads][kFours];
#pragma unroll
      for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
        for (uint f = 0; f < kFours; ++f) {
          const auto& halves = own.rounded[warp][h][block];
          high[h][f] = reinterpret_cast<const uint*>(halves[0])[lane / kLanes * kFours + f];
          low[h][f] = reinterpret_cast<const uint*>(halves[1])[lane / kLanes * kFours + f];
        }
      }
#pragma unroll
      for (uint w = 0; w < 4; ++w) {
        int upper[kHeads][4] = {}, lower[kHeads][4] = {};
#pragma unroll
        for (uint f = 0; f < kFours; ++f) {
          const auto word = [&](uint i) {
            const int4& bytes = row[4 * f + i];
            return static_cast<uint>(w == 0 ? bytes.x : w == 1 ? bytes.y : w == 2 ? bytes.z : bytes.w);
          };
          const uint a = __byte_perm(word(0), word(1), 0x5140);
          const uint b = __byte_perm(word(2), word(3), 0x5140);
          const uint c = __byte_perm(word(0), word(1), 0x7362);
          const uint d = __byte_perm(word(2), word(3), 0x7362);
          const uint values[4] = {__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632),
                                  __byte_perm(c, d, 0x5410), __byte_perm(c, d, 0x7632)};
#pragma unroll
          for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
            for (uint i = 0; i < 4; ++i) {
              upper[h][i] = dot4(values[i], high[h][f], upper[h][i]);
              lower[h][i] = dot4(values[i], low[h][f], lower[h][i]);
            }
          }
        }
#pragma unroll
        for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
          for (uint i = 0; i < 4; ++i) sums[h][4 * w + i] = upper[h][i] * 256 + lower[h][i];
        }
      }
    } else {
#pragma unroll
      for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
        for (uint i = 0; i < kRows; ++i) {
          const auto& halves = own.rounded[warp][h][block];
          const uint place = lane / kLanes * kRows + i;
          const int weight = halves[0][place] * 256 + halves[1][place];
          const int words[4] = {row[i].x, row[i].y, row[i].z, row[i].w};
#pragma unroll
          for (uint d = 0; d < kPartDims; ++d) {
            const int product = weight * (words[d / 4] << (24 - d % 4 * 8) >> 24);
            sums[h][d] = i == 0 ? product : sums[h][d] + product;
          }
        }
      }
    }
  }
  /// Each step halves the dimensions that a lane goes on with, and doubles what its sums are of, down to
  /// kLeft.
  template <uint kCount, uint kDistance, uint kLeft>
  __device__ __forceinline__ static void halve(int (&sums)[kPartDims], uint& dim, uint lane) {
    const bool upper = (lane & kDistance) != 0;
    if (upper) dim += kCount;
#pragma unroll
    for (uint d = 0; d < kCount; ++d) {
      const int sent = upper ? sums[d] : sums[d + kCount];
      const int kept = upper ? sums[d + kCount] : sums[d];
      sums[d] = kept + __shfl_xor_sync(kAllLanes, sent, kDistance);
    }
    if constexpr (kCount > kLeft && kCount > 1) halve<kCount / 2, kDistance / 2, kLeft>(sums, dim, lane);
  }
  /// Sums over the warp's lanes go to `out` [kDims].
  __device__ __forceinline__ static void add_lanes(int (&sums)[kPartDims], int* out, uint lane) {
    if constexpr (kLanes == 1) {
      int mine = 0;
#pragma unroll
      for (uint d = 0; d < kPartDims; ++d) {
        const int sum = __reduce_add_sync(kAllLanes, sums[d]);
        if (lane == d) mine = sum;
      }
      if (lane < kPartDims) out[lane] = mine;
    } else {
      uint dim = lane % kLanes * kPartDims;
      constexpr uint kLeft = kPartDims * kLanes / kWarp;
      halve<kPartDims / 2, kWarp / 2, kLeft>(sums, dim, lane);
#pragma unroll
      for (uint d = 0; d < kLeft; ++d) out[dim + d] = sums[d];
    }
  }
};

/// The largest of what the warps left in `largest`.
__device__ inline uint largest_of(const uint (&largest)[kWarps]) {
  const auto* words = reinterpret_cast<const uint4*>(largest);
  const uint4 a = words[0];
  const uint4 b = words[1];
  return max(max(max(a.x, a.y), max(a.z, a.w)), max(max(b.x, b.y), max(b.z, b.w)));
}

/// The norm warp's part of a job: denominators, 32 partial sums of every 32nd weight and a tree.
template <typename Model>
__device__ inline void sum_weights(uint heads) {
  sync(kSquaresReady, kNormThreads);
  auto& own = block_of<Model>().attention;
  const uint lane = lane_index();
#pragma unroll 1
  for (uint h = 0; h < heads; ++h) {
    float sum = 0.0F;
#pragma unroll
    for (uint i = 0; i < kWarps; ++i) sum = add(sum, own.weights[h][i * kWarp + lane]);
    sum = tree_sum(sum);
    if (lane == 0) own.denominators[h] = sum;
  }
  __syncwarp();
  arrive(kSumsReady, kNormThreads);
}

}  // namespace inferno::cuda::persistent
