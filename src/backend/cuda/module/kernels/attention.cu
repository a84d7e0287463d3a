// Attention over the int8 cache, of any shape: one split of 256 positions at a time.

#include "backend/cuda/module/kernels/attention.hpp"
#include "backend/cuda/module/kernels/attention_items.cuh"

namespace inferno::cuda {
namespace {

using gpu::AttendConstants;

constexpr unsigned kThreads = 256;
constexpr uint kSplit = arith::kSplit;
constexpr uint kQueries = 8;  // query heads that are worked on together: one warp's softmax each
constexpr uint kSlices = kSplit / kWarp;
/// Shared memory of a workgroup, cut into arrays.
struct Shared {
  const std::byte** bases;  // [256] of the cache blocks of the split: the KV head's bytes
  float* scores;            // [kQueries][256], then the weights before rounding
  float* value_scales;      // [B][256]
  float* query_scales;      // [kQueries][B]
  float* weight_scales;     // [kQueries][B]
  int* sums;                // [kQueries][E32]
  std::int8_t* queries;     // [kQueries][E32]
  std::int16_t* weights;    // [kQueries][B][256]

  static __host__ __device__ uint bytes(uint padded_dim) {
    const uint blocks = padded_dim / arith::kBlock;
    return kSplit * sizeof(void*) + kQueries * kSplit * 4 + blocks * kSplit * 4 + 2 * kQueries * blocks * 4 +
           kQueries * padded_dim * 4 + kQueries * padded_dim + kQueries * blocks * kSplit * 2;
  }

  __device__ Shared(std::byte* memory, uint padded_dim) {
    const uint blocks = padded_dim / arith::kBlock;
    const auto take = [&memory](std::size_t count) {
      std::byte* taken = memory;
      memory += count;
      return taken;
    };
    bases = reinterpret_cast<const std::byte**>(take(kSplit * sizeof(void*)));
    scores = reinterpret_cast<float*>(take(kQueries * kSplit * 4));
    value_scales = reinterpret_cast<float*>(take(std::size_t{blocks} * kSplit * 4));
    query_scales = reinterpret_cast<float*>(take(std::size_t{kQueries} * blocks * 4));
    weight_scales = reinterpret_cast<float*>(take(std::size_t{kQueries} * blocks * 4));
    sums = reinterpret_cast<int*>(take(std::size_t{kQueries} * padded_dim * 4));
    queries = reinterpret_cast<std::int8_t*>(take(std::size_t{kQueries} * padded_dim));
    weights = reinterpret_cast<std::int16_t*>(take(std::size_t{kQueries} * blocks * kSplit * 2));
  }
};

/// 16 bytes of the cache. Rows of blocks of few positions stand at multiples of 4 bytes only.
__device__ int4 load_16(const std::byte* bytes, bool aligned) {
  if (aligned) return *reinterpret_cast<const int4*>(bytes);
  const auto* words = reinterpret_cast<const int*>(bytes);
  return make_int4(words[0], words[1], words[2], words[3]);
}

/// The score of one query head and one position: blocks in ascending order.
__device__ float score(const std::byte* key, const float* key_scales, bool aligned, const std::int8_t* query,
                       const float* query_scales, uint blocks) {
  float sum = 0.0F;
  const auto* words = reinterpret_cast<const int4*>(query);
  for (uint b = 0; b < blocks; ++b) {
    int dot = dot16(load_16(key + 32 * b, aligned), words[2 * b], kDotStart);
    dot = dot16(load_16(key + 32 * b + 16, aligned), words[2 * b + 1], dot);
    sum = add(sum, multiply(multiply(dot_to_float(dot), key_scales[b]), query_scales[b]));
  }
  return sum;
}

/// One warp, one query: maximum, denominator, then the weights of each 32 dimensions rounded to 15 bits.
/// `count` positions are seen, at least 1.
__device__ void weigh(const Shared& shared, uint query, uint count, uint blocks, float2* statistics) {
  const uint lane = lane_index();
  float* scores = shared.scores + query * kSplit;
  float p[kSlices];
  float maximum = scores[0];
#pragma unroll
  for (uint i = 0; i < kSlices; ++i) {
    p[i] = scores[i * kWarp + lane];
    if (i * kWarp + lane < count && p[i] > maximum) maximum = p[i];
  }
  for (unsigned half = kWarp / 2; half > 0; half /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, maximum, half);
    if (other > maximum) maximum = other;
  }
  float denominator = 0.0F;
#pragma unroll
  for (uint i = 0; i < kSlices; ++i) {
    const bool seen = i * kWarp + lane < count;
    p[i] = seen ? arith::exponential(arith::subtract(p[i], maximum)) : 0.0F;
    denominator = add(denominator, p[i]);
  }
  denominator = tree_sum(denominator);
  if (lane == 0) *statistics = make_float2(maximum, denominator);

  for (uint b = 0; b < blocks; ++b) {
    float a[kSlices];
    uint largest = 0;
#pragma unroll
    for (uint i = 0; i < kSlices; ++i) {
      // Behind `count` the scales are of other tokens' positions, or of nothing.
      const bool seen = i * kWarp + lane < count;
      a[i] = seen ? multiply(p[i], shared.value_scales[b * kSplit + i * kWarp + lane]) : 0.0F;
      largest = max(largest, arith::magnitude_bits(a[i]));
    }
    largest = __reduce_max_sync(kAllLanes, largest);
    const float inverse = arith::block_inverse(largest, arith::kWeightLevels);
#pragma unroll
    for (uint i = 0; i < kSlices; ++i) {
      shared.weights[(query * blocks + b) * kSplit + i * kWarp + lane] =
          static_cast<std::int16_t>(arith::quantize(a[i], inverse));
    }
    if (lane == 0) {
      shared.weight_scales[query * blocks + b] = arith::block_scale(largest, arith::kWeightStep);
    }
  }
}

/// Exact sums of weights times values, over all positions of the split, for `queries` query heads.
__device__ void sum_values(const Shared& shared, const AttentionItem& item, uint queries,
                           std::size_t values_at, const AttendConstants& c) {
  const uint blocks = c.padded_dim / arith::kBlock;
  const uint words = c.padded_dim / 4;
  const uint parts = max(1U, kThreads / words);
  const uint positions = (item.end - item.begin + parts - 1) / parts;
  for (uint work = threadIdx.x; work < words * parts; work += kThreads) {
    const uint word = work % words;
    const uint first = work / words * positions;
    const uint last = min(first + positions, item.end - item.begin);
    if (first >= last) continue;
    const auto* weights = shared.weights + word / (arith::kBlock / 4) * kSplit;
    int sums[kQueries][4] = {};
    for (uint i = first; i < last; ++i) {
      const std::byte* row =
          shared.bases[i / c.block_size] + values_at + std::size_t{i % c.block_size} * c.padded_dim;
      const int four = reinterpret_cast<const int*>(row)[word];
      const int v[4] = {four << 24 >> 24, four << 16 >> 24, four << 8 >> 24, four >> 24};
#pragma unroll
      for (uint q = 0; q < kQueries; ++q) {
        if (q >= queries) break;
        const int weight = weights[q * blocks * kSplit + i];
#pragma unroll
        for (uint k = 0; k < 4; ++k) sums[q][k] += weight * v[k];
      }
    }
#pragma unroll
    for (uint q = 0; q < kQueries; ++q) {
      if (q >= queries) break;
#pragma unroll
      for (uint k = 0; k < 4; ++k) atomicAdd(shared.sums + q * c.padded_dim + word * 4 + k, sums[q][k]);
    }
  }
}

__device__ void attend_item(const Shared& shared, const AttentionItem& item, const std::int8_t* query_quants,
                            const float* query_scales, const std::byte* cache, const uint* tables,
                            float2* statistics, float* outputs, const AttendConstants& c) {
  const uint group = c.heads / c.kv_heads;
  const uint blocks = c.padded_dim / arith::kBlock;
  const uint bases = (item.end - item.begin + c.block_size - 1) / c.block_size;
  const std::size_t plane = std::size_t{c.block_size} * c.padded_dim;
  const std::size_t scale_plane = std::size_t{c.block_size} * blocks * sizeof(float);
  const std::size_t head_bytes = 2 * (plane + scale_plane);
  const std::size_t values_at = plane + scale_plane;
  for (uint i = threadIdx.x; i < bases; i += kThreads) {
    const uint block = tables[item.tile.w + item.begin / c.block_size + i];
    shared.bases[i] = cache + (std::size_t{block} * c.kv_heads + item.kv_head) * head_bytes;
  }
  __syncthreads();
  const uint seen = item.end - item.begin;
  for (uint i = threadIdx.x; i < seen * blocks; i += kThreads) {
    const uint position = i / blocks;
    const auto* scales =
        reinterpret_cast<const float*>(shared.bases[position / c.block_size] + values_at + plane);
    shared.value_scales[i % blocks * kSplit + position] =
        scales[std::size_t{position % c.block_size} * blocks + i % blocks];
  }

  // Query heads [tokens][group]; those of tokens before the split see nothing of it.
  const uint skipped = item.begin > item.tile.z ? item.begin - item.tile.z : 0;
  const uint all = item.tile.y * group;
  for (uint first = skipped * group; first < all; first += kQueries) {
    const uint queries = min(kQueries, all - first);
    const auto head_of = [&](uint q) {  // [T][H]
      const uint token = item.tile.x + (first + q) / group;
      return std::size_t{token} * c.heads + item.kv_head * group + (first + q) % group;
    };
    const auto count_of = [&](uint q) {
      const uint position = item.tile.z + (first + q) / group;
      return min(item.end, position + 1) - item.begin;
    };
    const auto result_of = [&](uint q) {  // [T'][H][max_splits]
      return (head_of(q) - std::size_t{c.first_token} * c.heads) * c.max_splits + item.split;
    };
    for (uint i = threadIdx.x; i < queries * c.padded_dim / 4; i += kThreads) {
      const uint q = i / (c.padded_dim / 4);
      reinterpret_cast<int*>(shared.queries)[i] =
          reinterpret_cast<const int*>(query_quants + head_of(q) * c.padded_dim)[i % (c.padded_dim / 4)];
    }
    for (uint i = threadIdx.x; i < queries * blocks; i += kThreads) {
      shared.query_scales[i] = query_scales[head_of(i / blocks) * blocks + i % blocks];
    }
    for (uint i = threadIdx.x; i < queries * c.padded_dim; i += kThreads) shared.sums[i] = 0;
    __syncthreads();
    if (threadIdx.x < seen) {
      const uint offset = threadIdx.x % c.block_size;
      const std::byte* base = shared.bases[threadIdx.x / c.block_size];
      const std::byte* key = base + std::size_t{offset} * c.padded_dim;
      const bool aligned = head_bytes % 16 == 0;
      const auto* scales = reinterpret_cast<const float*>(base + plane) + std::size_t{offset} * blocks;
      for (uint q = 0; q < queries; ++q) {
        shared.scores[q * kSplit + threadIdx.x] =
            score(key, scales, aligned, shared.queries + q * c.padded_dim, shared.query_scales + q * blocks,
                  blocks);
      }
    }
    __syncthreads();
    const uint warp = threadIdx.x / kWarp;
    if (warp < queries) weigh(shared, warp, count_of(warp), blocks, statistics + result_of(warp));
    __syncthreads();
    sum_values(shared, item, queries, values_at, c);
    __syncthreads();
    for (uint i = threadIdx.x; i < queries * c.padded_dim; i += kThreads) {
      const uint q = i / c.padded_dim;
      const uint d = i % c.padded_dim;
      outputs[result_of(q) * c.padded_dim + d] =
          multiply(arith::to_float(shared.sums[i]), shared.weight_scales[q * blocks + d / arith::kBlock]);
    }
    __syncthreads();
  }
}

/// The grid is (splits, K, tiles), given or read from `indirect_grid`.
__global__ void __launch_bounds__(kThreads)
    attend(const std::int8_t* query_quants, const float* query_scales, const std::byte* cache,
           const uint* tables, const uint4* tiles, float2* statistics, float* outputs, AttendConstants c,
           const uint* indirect_grid, gpu::Grid given_grid) {
  after_previous();
  extern __shared__ __align__(16) std::byte memory[];
  const Shared shared(memory, c.padded_dim);
  AttentionItems items(AttentionGrid(given_grid, indirect_grid), tiles + c.first_tile);
  for (AttentionItem item = items.next(); item.valid; item = items.next()) {
    __syncthreads();  // the item before has been read
    attend_item(shared, item, query_quants, query_scales, cache, tables, statistics, outputs, c);
  }
}

}  // namespace

Launch plan_attend(const Command& command, unsigned shared_limit) {
  const auto& c = constants_of<AttendConstants>(command);
  if (c.block_size == kSplit && (c.head_dim == 64 || c.head_dim == 128)) {
    const Launch launch = c.tile_tokens == 1 ? plan_attend_rows(command) : plan_attend_tiles(command);
    if (launch.shared_bytes <= shared_limit) return launch;
  }
  constexpr unsigned kGroups = 132 * 6;  // they take items in turn
  return {address_of(attend), dim3(kGroups), dim3(kThreads), Shared::bytes(c.padded_dim), 7, true};
}

}  // namespace inferno::cuda
