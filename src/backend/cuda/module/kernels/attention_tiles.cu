// Attention of prompts, for heads of 64 and 128 elements and cache blocks of 256 positions, on the tensor
// cores.
//
// A warp has a tile of tokens, sixteen of its query heads at a time, and one split: its 16 x 256 scores stay
// in registers until they have become weights. Eight warps share the keys and values in shared memory; those
// of the next item are copied there meanwhile. Scores are exact integer products per block of 32 dimensions,
// as are the sums of weights and values, so the result is that of the plain kernel. A weight of 15 bits goes
// as two bytes: its products with a value are those of the lower byte plus 256 times those of the upper one.

#include "backend/cuda/module/kernels/attention.hpp"
#include "backend/cuda/module/kernels/attention_jobs.cuh"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::AttendConstants;

constexpr unsigned kThreads = 256;
constexpr uint kWarps = kThreads / kWarp;
static_assert(kWarps == kBundle);
constexpr uint kSplit = arith::kSplit;
constexpr uint kQueries = kMmaRows;
constexpr uint kScoreTiles = kSplit / kMmaTokens;
constexpr uint kChunkTiles = arith::kBlock / kMmaTokens;  // score tiles of a product of weights and values
constexpr uint kChunks = kSplit / arith::kBlock;
static_assert(kThreads == kSplit);
constexpr uint kGroups = 132;  // workgroups: what is in shared memory leaves room for one on a multiprocessor
constexpr float kMinusInfinity = -__builtin_huge_valf();

/// What is copied of a cache block's head. Chunks of 16 bytes are exclusive-ored, so that what a warp reads
/// or writes at once lies in different banks.
template <uint kBlocks>
struct alignas(16) Copied {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  std::byte keys[kSplit * kDim];  // [position][chunk, by key_swizzle]
  float key_scales[kSplit][kBlocks];
  float value_scales[kBlocks][kSplit];  // 0 behind the last position
};

template <uint kBlocks>
struct alignas(16) Shared {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  Copied<kBlocks> copied[2];
  std::byte values[kSplit * kDim];  // of the next item: [position][chunk, by value_swizzle]
  std::byte turned[kDim * kSplit];  // of this one: [dimension][position, in the order of the products]
};

template <uint kBlocks>
__device__ uint key_swizzle(uint position) {
  constexpr uint kRowChunks = kBlocks * 2;
  return position * kRowChunks / 8 % kRowChunks;
}
template <uint kBlocks>
__device__ uint value_swizzle(uint position) {
  return position / 2 * 2 % (kBlocks * 2);
}
__device__ uint turned_swizzle(uint dim) {
  return (dim / 4 + dim % 4 * 2) % 8;
}

/// d += a b with unsigned a (weights) and signed b (values).
__device__ void mma_u8s8(const uint (&a)[4], uint b0, uint b1, int (&d)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// The same with signed a.
__device__ void mma_s8s8(const uint (&a)[4], uint b0, uint b1, int (&d)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Copies four bytes ahead, or zeros.
__device__ void copy_or_clear(void* target, const void* source, bool copies) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                   static_cast<uint>(__cvta_generic_to_shared(target))),
               "l"(source), "r"(copies ? 4 : 0)
               : "memory");
}

template <uint kCount>
__device__ void load_floats(const float* from, float (&values)[kCount]) {
  static_assert(kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    const auto four = *reinterpret_cast<const float4*>(from);
    values[0] = four.x;
    values[1] = four.y;
    values[2] = four.z;
    values[3] = four.w;
  } else {
    const auto two = *reinterpret_cast<const float2*>(from);
    values[0] = two.x;
    values[1] = two.y;
  }
}

template <uint kBlocks>
__device__ void fetch(Shared<kBlocks>& shared, Copied<kBlocks>& copied, const CachedHead<kBlocks>& head,
                      uint seen) {
  constexpr uint kDim = Shared<kBlocks>::kDim;
  constexpr uint kRowChunks = kDim / kChunk;
  for (uint i = threadIdx.x; i < seen * kRowChunks; i += kThreads) {
    const uint position = i / kRowChunks;
    const uint chunk = i % kRowChunks;
    copy_ahead<16>(copied.keys + position * kDim + (chunk ^ key_swizzle<kBlocks>(position)) * kChunk,
                   head.keys() + i * kChunk);
    copy_ahead<16>(shared.values + position * kDim + (chunk ^ value_swizzle<kBlocks>(position)) * kChunk,
                   head.values() + i * kChunk);
  }
  const uint i = threadIdx.x;
  if (i < seen) copy_ahead<kBlocks * 4>(copied.key_scales[i], head.key_scales() + i * kBlocks);
#pragma unroll
  for (uint b = 0; b < kBlocks; ++b) {
    copy_or_clear(&copied.value_scales[b][i], head.value_scales() + i * kBlocks + b, i < seen);
  }
}

/// Values as the products take them, four positions of four dimensions at a time: bytes 4q.. of sixteen
/// positions are those at 2q, 2q + 1, 8 + 2q and 9 + 2q, whose weights one lane has.
template <uint kBlocks>
__device__ void turn_values(Shared<kBlocks>& shared, uint seen) {
  constexpr uint kDim = Shared<kBlocks>::kDim;
  const uint lane = lane_index();
  const uint quad = lane % 4;
  // A warp: 32 dimensions (8 words) of 16 positions that become 16 bytes next to each other.
  const uint pieces = kBlocks * 2 * ((seen + arith::kBlock - 1) / arith::kBlock);
  for (uint piece = threadIdx.x / kWarp; piece < pieces; piece += kWarps) {
    const uint dim = (piece % kBlocks * 8 + lane / 4) * 4;
    const uint sixteen = piece / kBlocks;
    uint row[4];
#pragma unroll
    for (uint k = 0; k < 4; ++k) {
      const uint position = sixteen * 16 + k / 2 * 8 + quad * 2 + k % 2;
      row[k] = *reinterpret_cast<const uint*>(shared.values + position * kDim +
                                              (dim / kChunk ^ value_swizzle<kBlocks>(position)) * kChunk +
                                              dim % kChunk);
    }
    const uint low01 = __byte_perm(row[0], row[1], 0x5140);  // dims 0, 1 of positions 0, 1
    const uint low23 = __byte_perm(row[2], row[3], 0x5140);
    const uint high01 = __byte_perm(row[0], row[1], 0x7362);  // dims 2, 3
    const uint high23 = __byte_perm(row[2], row[3], 0x7362);
    const uint turned[4] = {__byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632),
                            __byte_perm(high01, high23, 0x5410), __byte_perm(high01, high23, 0x7632)};
#pragma unroll
    for (uint k = 0; k < 4; ++k) {
      *reinterpret_cast<uint*>(shared.turned + (dim + k) * kSplit +
                               (sixteen ^ turned_swizzle(dim + k)) * kChunk + quad * 4) = turned[k];
    }
  }
}

/// Sixteen query heads of a tile over a split. A lane has queries g = lane / 4 and g + 8, of each eight
/// positions those at 2 (lane % 4) and one further.
template <uint kBlocks>
struct Queries {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  uint most;                // positions that any of the queries sees
  uint tiles[2][2];         // [query][position of two]: those of tiles before this one are seen
  float p[kScoreTiles][4];  // scores, then their exponentials

  /// `positions`: those that the lane's queries see.
  __device__ Queries(const uint (&positions)[2]) {
    most = __reduce_max_sync(kAllLanes, max(positions[0], positions[1]));
#pragma unroll
    for (uint r = 0; r < 2; ++r)
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        tiles[r][i] = (positions[r] + kMmaTokens - 1 - lane_index() % 4 * 2 - i) / kMmaTokens;
      }
  }

  __device__ bool seen(uint tile, uint i) const { return tile < tiles[i / 2][i % 2]; }

  __device__ __forceinline__ void score(const Copied<kBlocks>& copied, const uint (&a)[kBlocks][4],
                                        const float (&query_scales)[2][kBlocks]) {
    const uint lane = lane_index();
    const uint row = lane % 8;
    // Eight positions on, chunks stand as they do here.
    const std::byte* keys[kBlocks / 2];
#pragma unroll
    for (uint b = 0; b < kBlocks; b += 2) {
      keys[b / 2] = copied.keys + row * kDim + ((2 * b + lane / 8) ^ key_swizzle<kBlocks>(row)) * kChunk;
    }
    const float* key_scales = copied.key_scales[lane % 4 * 2];
#pragma unroll
    for (uint two = 0; two < kScoreTiles; two += 2) {
      if (two * kMmaTokens >= most) {
#pragma unroll
        for (uint i = 0; i < 4; ++i) p[two][i] = p[two + 1][i] = kMinusInfinity;
        continue;
      }
#pragma unroll
      for (uint n = two; n < two + 2; ++n) {
        float scales[2][kBlocks];
#pragma unroll
        for (uint i = 0; i < 2; ++i)
          load_floats<kBlocks>(key_scales + (n * kMmaTokens + i) * kBlocks, scales[i]);
        float sums[4] = {};
#pragma unroll
        for (uint b = 0; b < kBlocks; b += 2) {
          uint words[4];  // of two blocks
          load_matrices(keys[b / 2] + n * kMmaTokens * kDim, words);
#pragma unroll
          for (uint j = 0; j < 2; ++j) {
            const uint key[2] = {words[2 * j], words[2 * j + 1]};
            int dots[4];
            mma_s8(a[b + j], key, kDotStart, dots);
#pragma unroll
            for (uint i = 0; i < 4; ++i) {
              const float scaled = multiply(dot_to_float(dots[i]), scales[i % 2][b + j]);
              sums[i] = add(sums[i], multiply(scaled, query_scales[i / 2][b + j]));
            }
          }
        }
#pragma unroll
        for (uint i = 0; i < 4; ++i) p[n][i] = seen(n, i) ? sums[i] : kMinusInfinity;
      }
    }
  }

  /// Scores to exponentials. `poison` is 0, or NaN where a score is not finite: exponentials have no meaning
  /// then, and what is made of them must become NaN.
  __device__ __forceinline__ void exponentiate(float (&maximum)[2], float (&denominator)[2],
                                               float (&poison)[2]) {
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      float largest = kMinusInfinity;
#pragma unroll
      for (uint n = 0; n < kScoreTiles; ++n) {
        largest = larger_or_nan(largest, p[n][2 * r]);
        largest = larger_or_nan(largest, p[n][2 * r + 1]);
      }
      largest = larger_or_nan(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      maximum[r] = larger_or_nan(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    }
    // Partial sum j is of positions j, j + 32, ...: the lane has 8 (n % 4) + 2 (lane % 4) and one further.
    // What stands under one condition goes through the processor side by side.
    float partial[2][kChunkTiles][2] = {};
#pragma unroll
    for (uint chunk = 0; chunk < kChunks; ++chunk) {
      auto* tile = &p[chunk * kChunkTiles];
      if (chunk * arith::kBlock >= most) {
#pragma unroll
        for (uint n = 0; n < kChunkTiles; ++n)
#pragma unroll
          for (float& value : tile[n]) value = 0.0F;
        continue;
      }
#pragma unroll
      for (uint n = 0; n < kChunkTiles; ++n)
#pragma unroll
        for (uint i = 0; i < 4; ++i) {
          const float value = exponential_of_negative(arith::subtract(tile[n][i], maximum[i / 2]));
          tile[n][i] = seen(chunk * kChunkTiles + n, i) ? value : 0.0F;
          float& sum = partial[i / 2][n][i % 2];
          sum = add(sum, tile[n][i]);
        }
    }
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      float sums[2];
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        const auto& of = partial[r];
        sums[i] = add(add(of[0][i], of[2][i]), add(of[1][i], of[3][i]));  // 16 apart, then 8
        sums[i] = add(sums[i], __shfl_xor_sync(kAllLanes, sums[i], 2));   // 4
        sums[i] = add(sums[i], __shfl_xor_sync(kAllLanes, sums[i], 1));   // 2
      }
      poison[r] = arith::subtract(maximum[r], maximum[r]);
      denominator[r] = add(add(sums[0], sums[1]), poison[r]);
    }
  }

  /// Exponential times value scale of block b. kCareful: scales of positions that a query does not see may be
  /// NaN.
  template <bool kCareful>
  __device__ __forceinline__ void weigh(const float* value_scales, uint n, float (&weights)[4]) const {
    const auto scale = *reinterpret_cast<const float2*>(value_scales + n * kMmaTokens);
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      weights[i] = multiply(p[n][i], i % 2 == 0 ? scale.x : scale.y);
      if (kCareful && !seen(n, i)) weights[i] = 0.0F;
    }
  }

  /// Outputs of block b: `low` + 256 `high`, and what one step of them is worth.
  template <bool kCareful>
  __device__ __forceinline__ void sum_values(const Shared<kBlocks>& shared, const Copied<kBlocks>& copied,
                                             uint b, int (&low)[kChunkTiles][4], int (&high)[kChunkTiles][4],
                                             float (&scale)[2]) const {
    const uint lane = lane_index();
    const float* value_scales = copied.value_scales[b] + lane % 4 * 2;
    float largest[2] = {0.0F, 0.0F};
#pragma unroll
    for (uint chunk = 0; chunk < kChunks; ++chunk) {
      if (chunk * arith::kBlock >= most) continue;
#pragma unroll
      for (uint n = 0; n < kChunkTiles; ++n) {
        float weights[4];
        weigh<kCareful>(value_scales, chunk * kChunkTiles + n, weights);
#pragma unroll
        for (uint i = 0; i < 4; ++i) largest[i / 2] = larger_or_nan(largest[i / 2], fabsf(weights[i]));
      }
    }
    float inverse[2];
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      largest[r] = larger_or_nan(largest[r], __shfl_xor_sync(kAllLanes, largest[r], 1));
      largest[r] = larger_or_nan(largest[r], __shfl_xor_sync(kAllLanes, largest[r], 2));
      const uint bits = arith::magnitude_bits(largest[r]);
      scale[r] = arith::block_scale(bits, arith::kWeightStep);
      inverse[r] = arith::block_inverse(bits, arith::kWeightLevels);
    }
    const uint matrix = lane / 8;
    const std::byte* rows[kChunkTiles / 2];
    uint swizzles[kChunkTiles / 2];
#pragma unroll
    for (uint n = 0; n < kChunkTiles; n += 2) {
      const uint dim = b * arith::kBlock + (n + matrix / 2) * kMmaTokens + lane % 8;
      rows[n / 2] = shared.turned + dim * kSplit;
      swizzles[n / 2] = (matrix % 2 ^ turned_swizzle(dim)) * kChunk;
    }
#pragma unroll
    for (uint chunk = 0; chunk < kChunks; ++chunk) {
      if (chunk * arith::kBlock >= most) continue;
      // A weight is negative only if a scale is: two's complement keeps the bytes' sum true modulo 2^16, and
      // the upper byte is taken as signed. Two tiles' weights of a query are four bytes next to each other.
      uint low_bytes[4], high_bytes[4];
#pragma unroll
      for (uint half = 0; half < 2; ++half) {
        uint pairs[2][2];  // [query][tile]: lower bytes of two weights, then the upper ones
#pragma unroll
        for (uint t = 0; t < 2; ++t) {
          float weights[4];
          weigh<kCareful>(value_scales, chunk * kChunkTiles + half * 2 + t, weights);
          uint bits[4];  // what is rounded stands in the low 16 bits
#pragma unroll
          for (uint i = 0; i < 4; ++i) {
            bits[i] = __float_as_uint(add(multiply(weights[i], inverse[i / 2]), arith::kRounder));
          }
          pairs[0][t] = __byte_perm(bits[0], bits[1], 0x5140);
          pairs[1][t] = __byte_perm(bits[2], bits[3], 0x5140);
        }
#pragma unroll
        for (uint r = 0; r < 2; ++r) {
          low_bytes[2 * half + r] = __byte_perm(pairs[r][0], pairs[r][1], 0x5410);
          high_bytes[2 * half + r] = __byte_perm(pairs[r][0], pairs[r][1], 0x7632);
        }
      }
#pragma unroll
      for (uint n = 0; n < kChunkTiles; n += 2) {
        uint words[4];
        load_matrices(rows[n / 2] + (2 * chunk * kChunk ^ swizzles[n / 2]), words);
#pragma unroll
        for (uint j = 0; j < 2; ++j) {
          mma_u8s8(low_bytes, words[2 * j], words[2 * j + 1], low[n + j]);
          mma_s8s8(high_bytes, words[2 * j], words[2 * j + 1], high[n + j]);
        }
      }
    }
  }
};

/// Where the results of a lane's two queries go, and whether they are wanted.
struct Results {
  std::size_t at[2];  // [T'][H][max_splits]
  bool wanted[2];
};

template <uint kBlocks, bool kCareful>
__device__ __forceinline__ void write_outputs(const Shared<kBlocks>& shared, const Copied<kBlocks>& copied,
                                              const Queries<kBlocks>& queries, const float (&poison)[2],
                                              const Results& results, float* outputs) {
#pragma unroll 1
  for (uint b = 0; b < kBlocks; ++b) {
    int low[kChunkTiles][4] = {};
    int high[kChunkTiles][4] = {};
    float scale[2];
    queries.template sum_values<kCareful>(shared, copied, b, low, high, scale);
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      if (!results.wanted[r]) continue;
      const float step = add(scale[r], poison[r]);
      float* out =
          outputs + results.at[r] * Queries<kBlocks>::kDim + b * arith::kBlock + lane_index() % 4 * 2;
#pragma unroll
      for (uint n = 0; n < kChunkTiles; ++n) {
        const auto value = [&](uint i) {
          return multiply(arith::to_float(low[n][2 * r + i] + high[n][2 * r + i] * 256), step);
        };
        *reinterpret_cast<float2*>(out + n * kMmaTokens) = make_float2(value(0), value(1));
      }
    }
  }
}

template <uint kBlocks>
__device__ void attend_tile(const Shared<kBlocks>& shared, const Copied<kBlocks>& copied, const Job& job,
                            bool careful, const std::int8_t* query_quants, const float* query_scales,
                            float2* statistics, float* outputs, const AttendConstants& c) {
  constexpr uint kDim = Shared<kBlocks>::kDim;
  const Tile& tile = job.tile;
  const uint lane = lane_index();
  const uint group = c.heads / c.kv_heads;
  const uint begin = job.split * kSplit;
  // Query heads of tokens before the split see nothing of it.
  const uint skipped = begin > tile.position ? begin - tile.position : 0;
  const uint all = tile.tokens * group;
  for (uint first = skipped * group; first < all; first += kQueries) {
    uint a[kBlocks][4];
    float scales[2][kBlocks];
    uint positions[2];
    Results results;
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      const uint query = min(first + lane / 4 + r * 8, all - 1);
      results.wanted[r] = first + lane / 4 + r * 8 < all;
      positions[r] = min(kSplit, tile.position + query / group + 1 - begin);
      const std::size_t head =
          std::size_t{tile.token + query / group} * c.heads + job.kv_head * group + query % group;  // [T][H]
      results.at[r] = (head - std::size_t{c.first_token} * c.heads) * c.max_splits + job.split;
      const auto* words = reinterpret_cast<const uint*>(query_quants + head * kDim) + lane % 4;
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) {
        a[b][r] = words[b * 8];
        a[b][2 + r] = words[b * 8 + 4];
      }
      load_floats<kBlocks>(query_scales + head * kBlocks, scales[r]);
    }
    Queries<kBlocks> queries(positions);
    queries.score(copied, a, scales);
    float maximum[2], denominator[2], poison[2];
    queries.exponentiate(maximum, denominator, poison);
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      if (lane % 4 == 0 && results.wanted[r]) {
        statistics[results.at[r]] = make_float2(maximum[r], denominator[r]);
      }
    }
    if (careful) {
      write_outputs<kBlocks, true>(shared, copied, queries, poison, results, outputs);
    } else {
      write_outputs<kBlocks, false>(shared, copied, queries, poison, results, outputs);
    }
  }
}

/// The grid is (splits, K, tiles), given or read from `indirect_grid`.
template <uint kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    attend_tiles(const std::int8_t* query_quants, const float* query_scales, const std::byte* cache,
                 const uint* tables, const uint4* tiles, float2* statistics, float* outputs,
                 AttendConstants c, const uint* indirect_grid, gpu::Grid given_grid) {
  after_previous();
  extern __shared__ __align__(16) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kBlocks>*>(memory);
  Jobs jobs(AttentionGrid(given_grid, indirect_grid), tables, tiles + c.first_tile);
  const auto fetch_for = [&](const Job& job, uint side) {
    if (job.valid) {
      fetch<kBlocks>(shared, shared.copied[side],
                     CachedHead<kBlocks>(cache, job.block, c.kv_heads, job.kv_head), job.seen);
    }
    commit_copies();
  };
  Job job = jobs.next();
  fetch_for(job, 0);
  for (uint side = 0; job.valid; side ^= 1U) {
    wait_copies<0>();
    __syncthreads();  // this job is here for all, and all are done with the one before
    turn_values(shared, job.seen);
    // A scale that is NaN must not reach queries that do not see its position.
    bool careful = false;
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) {
      const float scale = shared.copied[side].value_scales[b][threadIdx.x];
      careful |= scale != scale;
    }
    careful = __syncthreads_or(careful);
    const Job next = jobs.next();
    fetch_for(next, side ^ 1U);
    if ((job.members >> (threadIdx.x / kWarp) & 1U) != 0) {
      attend_tile(shared, shared.copied[side], job, careful, query_quants, query_scales, statistics, outputs,
                  c);
    }
    job = next;
  }
}

template <uint kBlocks>
Launch launch_for() {
  return {address_of(attend_tiles<kBlocks>), dim3(kGroups), dim3(kThreads), sizeof(Shared<kBlocks>), 7, true};
}

}  // namespace

Launch plan_attend_tiles(const Command& command) {
  return constants_of<AttendConstants>(command).head_dim == 128 ? launch_for<4>() : launch_for<2>();
}

}  // namespace inferno::cuda
