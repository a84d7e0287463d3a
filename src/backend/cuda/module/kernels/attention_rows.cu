// Attention of rows that have one token each, for heads of 64 and 128 elements and cache blocks of 256
// positions: keys and values are read once, as fast as memory gives them, two query heads at a time. Keys of
// the next item are on their way while weights are made of this one's scores, values while its sums are
// written.

#include "backend/cuda/module/kernels/attention.hpp"
#include "backend/cuda/module/kernels/attention_items.cuh"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::AttendConstants;

constexpr unsigned kThreads = 256;
constexpr uint kWarps = kThreads / kWarp;
constexpr uint kSplit = arith::kSplit;
constexpr uint kSlices = kSplit / kWarp;
constexpr uint kQueries = 2;       // query heads at a time
constexpr uint kGroups = 132 * 2;  // workgroups: two fit a multiprocessor
static_assert(kThreads == kSplit);

template <uint kBlocks>
struct alignas(16) Shared {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  static constexpr uint kWords = kDim / 4;
  static constexpr uint kParts = kThreads / kWords;  // threads that share the positions of four dimensions
  std::byte keys[kSplit * kDim];                     // [position][chunk, by the position]
  std::byte values[kSplit * kDim];
  float key_scales[kSplit][kBlocks];
  float value_scales[kSplit][kBlocks];
  int4 queries[kQueries][kDim / 16];
  float query_scales[kQueries][kBlocks];
  float scores[kQueries][kSplit];
  std::int16_t weights[kQueries][kBlocks][kSplit];
  float weight_scales[kQueries][kBlocks];
  int4 sums[kQueries][kParts][kWords];
};

template <uint kBlocks>
__device__ uint swizzle(uint position) {
  constexpr uint kRowChunks = kBlocks * 2;
  return position * kRowChunks / 8 % kRowChunks;
}

template <uint kBlocks>
__device__ void fetch_keys(Shared<kBlocks>& shared, const CachedHead<kBlocks>& head, uint seen) {
  constexpr uint kRowChunks = kBlocks * 2;
  for (uint i = threadIdx.x; i < seen * kRowChunks; i += kThreads) {
    copy_ahead<16>(shared.keys + (i ^ swizzle<kBlocks>(i / kRowChunks)) * kChunk, head.keys() + i * kChunk);
  }
  if (threadIdx.x < seen) {
    copy_ahead<kBlocks * 4>(shared.key_scales[threadIdx.x], head.key_scales() + threadIdx.x * kBlocks);
  }
}

template <uint kBlocks>
__device__ void fetch_values(Shared<kBlocks>& shared, const CachedHead<kBlocks>& head, uint seen) {
  for (uint i = threadIdx.x; i < seen * (kBlocks * 2); i += kThreads) {
    copy_ahead<16>(shared.values + i * kChunk, head.values() + i * kChunk);
  }
  if (threadIdx.x < seen) {
    copy_ahead<kBlocks * 4>(shared.value_scales[threadIdx.x], head.value_scales() + threadIdx.x * kBlocks);
  }
}

/// Query heads from number `head` [T][H] on, `count` of them.
template <uint kBlocks>
__device__ void fetch_queries(Shared<kBlocks>& shared, const std::int8_t* quants, const float* scales,
                              std::size_t head, uint count) {
  constexpr uint kDim = Shared<kBlocks>::kDim;
  constexpr uint kPieces = kDim / kChunk;
  if (threadIdx.x < kQueries * kPieces) {
    const uint q = min(threadIdx.x / kPieces, count - 1);
    copy_ahead<16>(&shared.queries[threadIdx.x / kPieces][threadIdx.x % kPieces],
                   quants + (head + q) * kDim + threadIdx.x % kPieces * kChunk);
  } else if (threadIdx.x - kQueries * kPieces < kQueries) {
    const uint i = threadIdx.x - kQueries * kPieces;
    copy_ahead<kBlocks * 4>(shared.query_scales[i], scales + (head + min(i, count - 1)) * kBlocks);
  }
}

/// Scores of the thread's position.
template <uint kBlocks>
__device__ void score(Shared<kBlocks>& shared) {
  const uint position = threadIdx.x;
  const auto* row = reinterpret_cast<const int4*>(shared.keys) + position * (kBlocks * 2);
  float sums[kQueries] = {};
#pragma unroll
  for (uint b = 0; b < kBlocks; ++b) {
    const int4 low = row[2 * b ^ swizzle<kBlocks>(position)];
    const int4 high = row[(2 * b + 1) ^ swizzle<kBlocks>(position)];
    const float key_scale = shared.key_scales[position][b];
#pragma unroll
    for (uint q = 0; q < kQueries; ++q) {
      const int dot =
          dot16(high, shared.queries[q][2 * b + 1], dot16(low, shared.queries[q][2 * b], kDotStart));
      const float scaled = multiply(dot_to_float(dot), key_scale);
      sums[q] = add(sums[q], multiply(scaled, shared.query_scales[q][b]));
    }
  }
#pragma unroll
  for (uint q = 0; q < kQueries; ++q) shared.scores[q][position] = sums[q];
}

/// One warp: the weights of a query for block b of the values, rounded to 15 bits. `count` positions are
/// seen.
template <uint kBlocks>
__device__ void weigh(Shared<kBlocks>& shared, uint query, uint b, uint count, float2* statistics) {
  const uint lane = lane_index();
  const float* scores = shared.scores[query];
  float p[kSlices];
  float maximum = scores[0];
#pragma unroll
  for (uint i = 0; i < kSlices; ++i) {
    p[i] = scores[i * kWarp + lane];
    maximum = larger_or_nan(maximum, i * kWarp + lane < count ? p[i] : maximum);
  }
#pragma unroll
  for (unsigned half = kWarp / 2; half > 0; half /= 2) {
    maximum = larger_or_nan(maximum, __shfl_xor_sync(kAllLanes, maximum, half));
  }
  // 0, or NaN where a score is not finite: exponentials have no meaning then, and what is made of them must
  // become NaN.
  const float poison = arith::subtract(maximum, maximum);
  float denominator = 0.0F;
  float a[kSlices];
  float largest = 0.0F;
#pragma unroll
  for (uint i = 0; i < kSlices; ++i) {
    const bool seen = i * kWarp + lane < count;
    const float value = exponential_of_negative(arith::subtract(p[i], maximum));
    p[i] = seen ? value : 0.0F;
    denominator = add(denominator, p[i]);
    // Behind `count` the scales are of nothing.
    a[i] = seen ? multiply(p[i], shared.value_scales[i * kWarp + lane][b]) : 0.0F;
    largest = larger_or_nan(largest, fabsf(a[i]));
  }
  const uint bits = __reduce_max_sync(kAllLanes, arith::magnitude_bits(largest));
  const float inverse = arith::block_inverse(bits, arith::kWeightLevels);
#pragma unroll
  for (uint i = 0; i < kSlices; ++i) {
    // What is rounded stands in the low 16 bits; of a NaN nobody sees it, because its scale is NaN.
    shared.weights[query][b][i * kWarp + lane] =
        static_cast<std::int16_t>(__float_as_uint(add(multiply(a[i], inverse), arith::kRounder)));
  }
  if (lane == 0) {
    shared.weight_scales[query][b] = add(arith::block_scale(bits, arith::kWeightStep), poison);
  }
  if (b != 0) return;
  denominator = add(tree_sum(denominator), poison);
  if (lane == 0) *statistics = make_float2(maximum, denominator);
}

/// Exact sums of weights times values, four dimensions and a part of the positions for each thread.
template <uint kBlocks>
__device__ void sum_values(Shared<kBlocks>& shared, uint seen) {
  using S = Shared<kBlocks>;
  constexpr uint kPositions = kSplit / S::kParts;
  const uint word = threadIdx.x % S::kWords;
  const uint part = threadIdx.x / S::kWords;
  const auto* values = reinterpret_cast<const uint*>(shared.values) + word;
  int sums[kQueries][4] = {};
#pragma unroll
  for (uint i = 0; i < kPositions; i += 4) {
    const uint position = part * kPositions + i;
    if (position >= seen) break;  // weights behind are zero
    uint row[4];
#pragma unroll
    for (uint k = 0; k < 4; ++k) row[k] = values[(position + k) * S::kWords];
    const uint low01 = __byte_perm(row[0], row[1], 0x5140);  // dims 0, 1 of positions 0, 1
    const uint low23 = __byte_perm(row[2], row[3], 0x5140);
    const uint high01 = __byte_perm(row[0], row[1], 0x7362);  // dims 2, 3
    const uint high23 = __byte_perm(row[2], row[3], 0x7362);
    const uint turned[4] = {__byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632),
                            __byte_perm(high01, high23, 0x5410), __byte_perm(high01, high23, 0x7632)};
#pragma unroll
    for (uint q = 0; q < kQueries; ++q) {
      const auto weights =
          *reinterpret_cast<const int2*>(&shared.weights[q][word / (arith::kBlock / 4)][position]);
#pragma unroll
      for (uint k = 0; k < 4; ++k) {
        sums[q][k] = __dp2a_lo(weights.x, static_cast<int>(turned[k]), sums[q][k]);
        sums[q][k] = __dp2a_hi(weights.y, static_cast<int>(turned[k]), sums[q][k]);
      }
    }
  }
#pragma unroll
  for (uint q = 0; q < kQueries; ++q) {
    shared.sums[q][part][word] = make_int4(sums[q][0], sums[q][1], sums[q][2], sums[q][3]);
  }
}

/// The grid is (splits, K, tiles), given or read from `indirect_grid`; tiles have one token.
template <uint kBlocks>
__global__ void __launch_bounds__(kThreads, 2)
    attend_rows(const std::int8_t* query_quants, const float* query_scales, const std::byte* cache,
                const uint* tables, const uint4* tiles, float2* statistics, float* outputs, AttendConstants c,
                const uint* indirect_grid, gpu::Grid given_grid) {
  using S = Shared<kBlocks>;
  after_previous();
  extern __shared__ __align__(16) std::byte memory[];
  auto& shared = *reinterpret_cast<S*>(memory);
  const uint group = c.heads / c.kv_heads;
  const uint warp = threadIdx.x / kWarp;
  const auto head_of = [&](const AttentionItem& item) {  // the first of [T][H]
    return std::size_t{item.tile.x} * c.heads + item.kv_head * group;
  };
  const auto block_of = [&](const AttentionItem& item) { return tables[item.tile.w + item.split]; };
  AttentionItems items(AttentionGrid(given_grid, indirect_grid), tiles + c.first_tile);
  AttentionItem item = items.next();
  if (!item.valid) return;
  {
    const CachedHead<kBlocks> head(cache, block_of(item), c.kv_heads, item.kv_head);
    fetch_queries<kBlocks>(shared, query_quants, query_scales, head_of(item), min(kQueries, group));
    fetch_keys<kBlocks>(shared, head, item.end - item.begin);
    fetch_values<kBlocks>(shared, head, item.end - item.begin);
    commit_copies();
  }
  while (item.valid) {
    const AttentionItem next = items.next();
    const uint next_block = block_of(next.valid ? next : item);  // asked for, not waited for
    const uint seen = item.end - item.begin;
    for (uint first = 0; first < group; first += kQueries) {
      const bool last = first + kQueries >= group;
      const uint count = min(kQueries, group - first);
      wait_copies<0>();
      __syncthreads();  // all that was fetched is here for all
      if (threadIdx.x < seen) score(shared);
      __syncthreads();
      if (!last) {
        fetch_queries<kBlocks>(shared, query_quants, query_scales, head_of(item) + first + kQueries,
                               min(kQueries, group - first - kQueries));
      } else if (next.valid) {
        fetch_queries<kBlocks>(shared, query_quants, query_scales, head_of(next), min(kQueries, group));
        fetch_keys<kBlocks>(shared, CachedHead<kBlocks>(cache, next_block, c.kv_heads, next.kv_head),
                            next.end - next.begin);
      }
      const std::size_t result =
          (head_of(item) + first - std::size_t{c.first_token} * c.heads) * c.max_splits + item.split;
      for (uint i = warp; i < count * kBlocks; i += kWarps) {
        const uint q = i / kBlocks;
        weigh(shared, q, i % kBlocks, seen, statistics + result + q * std::size_t{c.max_splits});
      }
      __syncthreads();
      sum_values(shared, seen);
      __syncthreads();
      if (last && next.valid) {
        fetch_values<kBlocks>(shared, CachedHead<kBlocks>(cache, next_block, c.kv_heads, next.kv_head),
                              next.end - next.begin);
      }
      commit_copies();
      for (uint i = threadIdx.x; i < count * S::kDim; i += kThreads) {
        const uint q = i / S::kDim;
        const uint dim = i % S::kDim;
        int sum = 0;
#pragma unroll
        for (uint part = 0; part < S::kParts; ++part) {
          sum += reinterpret_cast<const int*>(shared.sums[q][part])[dim];
        }
        outputs[(result + q * std::size_t{c.max_splits}) * S::kDim + dim] =
            multiply(arith::to_float(sum), shared.weight_scales[q][dim / arith::kBlock]);
      }
    }
    item = next;
  }
}

template <uint kBlocks>
Launch launch_for() {
  return {address_of(attend_rows<kBlocks>), dim3(kGroups), dim3(kThreads), sizeof(Shared<kBlocks>), 7, true};
}

}  // namespace

Launch plan_attend_rows(const Command& command) {
  return constants_of<AttendConstants>(command).head_dim == 128 ? launch_for<4>() : launch_for<2>();
}

}  // namespace inferno::cuda
