// Attention of prompts, for heads of 64 and 128 elements and cache blocks of 256 positions, on the tensor
// cores.
//
// A warp has half of a tile of tokens, eight of its query heads at a time, and one split: its 256 x 8 scores
// stay in registers until they have become weights. Sixteen warps share the keys and values in shared memory;
// those of the next item are copied there meanwhile. Positions are the rows of the products, then dimensions,
// and queries always the columns. Scores are exact integer products per block of 32 dimensions, as are the
// sums of weights and values, so the result is that of the plain kernel. A weight of 15 bits goes as two
// bytes: its products with a value are those of the lower byte plus 256 times those of the upper one.
//
// (Sixteen queries in a warp, as rows, need half as many loads from shared memory, but twice the registers:
// eight warps on a multiprocessor, whose instructions waited for each other half of the time.)

#include "backend/cuda/module/kernels/attention.hpp"
#include "backend/cuda/module/kernels/attention_jobs.cuh"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::AttendConstants;

constexpr unsigned kThreads = kBundle * kTileWarps * kWarp;
constexpr uint kWarps = kThreads / kWarp;
constexpr uint kSplit = arith::kSplit;
constexpr uint kQueries = kMmaTokens;
constexpr uint kScoreTiles = kSplit / kMmaRows;
constexpr uint kChunkTiles = arith::kBlock / kMmaRows;  // score tiles of a product of weights and values
constexpr uint kChunks = kSplit / arith::kBlock;
static_assert(kThreads == 2 * kSplit);
constexpr uint kGroups = 132;  // workgroups: what is in shared memory leaves room for one on a multiprocessor

/// What is copied of a cache block's head. Chunks of 16 bytes are exclusive-ored, so that what a warp reads
/// or writes at once lies in different banks.
template <uint kBlocks>
struct alignas(256) Copied {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  std::byte keys[kSplit * kDim];  // [position][chunk, by key_swizzle]
  float key_scales[kSplit][kBlocks];
  float value_scales[kBlocks][kSplit];  // at scale_place; 0 behind the last position
};

constexpr uint kJobs = 3;  // known at a time: this one, the one that is copied, and the one that is found

template <uint kBlocks>
struct alignas(256) Shared {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  Copied<kBlocks> copied[2];
  std::byte values[kSplit * kDim];  // of the next item: [position][chunk, by value_swizzle]
  std::byte turned[kDim * kSplit];  // of this one: [dimension][position, in the order of the products]
  Job jobs[kJobs];
  alignas(Jobs) std::byte finder[kWarp][sizeof(Jobs)];
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
/// Positions g and g + 8 of sixteen, whose weights one lane makes, stand side by side.
__device__ uint scale_place(uint position) {
  return position / 16 * 16 + position % 8 * 2 + position / 8 % 2;
}
__device__ uint turned_swizzle(uint dim) {
  return (dim / 4 + dim % 4 * 2) % 8;
}

/// d += a b with signed a (values) and unsigned b (weights).
__device__ void mma_s8u8(const uint (&a)[4], const uint (&b)[2], int (&d)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// The same with signed b.
__device__ void mma_s8s8(const uint (&a)[4], const uint (&b)[2], int (&d)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// An 8 by 8 matrix of 16-bit values, of which a lane has 2 (l % 4) and one further of row l / 4, turned.
__device__ uint turn_matrix(uint two) {
  uint turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(two));
  return turned;
}

/// Copies four bytes ahead, or zeros.
__device__ void copy_or_clear(void* target, const void* source, bool copies) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(target)), "l"(source),
               "r"(copies ? 4 : 0)
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
  const uint i = threadIdx.x % kSplit;
  const uint side = threadIdx.x / kSplit;
  if (side == 0 && i < seen) copy_ahead<kBlocks * 4>(copied.key_scales[i], head.key_scales() + i * kBlocks);
#pragma unroll
  for (uint half = 0; half < kBlocks; half += 2) {
    const uint b = half + side;
    copy_or_clear(&copied.value_scales[b][scale_place(i)], head.value_scales() + i * kBlocks + b, i < seen);
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

/// What queries see of a split.
enum class View {
  kAll,   // each of them all of it
  kSome,  // not all, and there are no NaN among the values' scales
  kAnything
};

/// Eight query heads of a tile over a split. A lane has queries 2 (lane % 4) and one further, of each sixteen
/// positions those at g = lane / 4 and g + 8.
template <uint kBlocks, View kView>
struct Queries {
  static constexpr bool kAll = kView == View::kAll;
  static constexpr uint kDim = kBlocks * arith::kBlock;
  uint most;                // positions that any of the queries sees
  uint tiles[2][2];         // [query][position of two]: those of tiles before this one are seen
  float p[kScoreTiles][4];  // scores, then their exponentials: [2 position of two + query]

  /// `positions`: those that the lane's queries see.
  __device__ Queries(const uint (&positions)[2]) {
    most = __reduce_max_sync(kAllLanes, max(positions[0], positions[1]));
#pragma unroll
    for (uint r = 0; r < 2; ++r)
#pragma unroll
      for (uint i = 0; i < 2; ++i) {
        tiles[r][i] = (positions[r] + kMmaRows - 1 - lane_index() / 4 - i * 8) / kMmaRows;
      }
  }

  /// Whether anybody sees anything from this chunk on.
  __device__ bool needed(uint chunk) const { return kAll || chunk * arith::kBlock < most; }
  __device__ bool seen(uint tile, uint i) const { return kAll || tile < tiles[i % 2][i / 2]; }

  /// The largest of what the lanes have for each of two queries.
  static __device__ __forceinline__ void reduce(float (&largest)[2]) {
#pragma unroll
    for (uint lanes = 4; lanes < kWarp; lanes *= 2)
#pragma unroll
      for (float& value : largest) value = larger_or_nan(value, __shfl_xor_sync(kAllLanes, value, lanes));
  }

  __device__ __forceinline__ void score(const Copied<kBlocks>& copied, const uint (&queries)[kBlocks][2],
                                        const float (&query_scales)[2][kBlocks]) {
    const uint lane = lane_index();
    const uint row = lane % kMmaRows;
    // Eight positions on, chunks stand as they do here.
    const uint keys =
        shared_address(copied.keys + row * kDim + (lane / kMmaRows ^ key_swizzle<kBlocks>(row)) * kChunk);
    const float* key_scales = copied.key_scales[lane / 4];
#pragma unroll
    for (uint chunk = 0; chunk < kChunks; ++chunk) {
      if (!needed(chunk)) {
#pragma unroll
        for (uint n = 0; n < kChunkTiles; ++n)
#pragma unroll
          for (float& value : p[chunk * kChunkTiles + n]) value = kMinusInfinity;
        continue;
      }
#pragma unroll
      for (uint n = chunk * kChunkTiles; n < (chunk + 1) * kChunkTiles; ++n) {
        float scales[2][kBlocks];
#pragma unroll
        for (uint i = 0; i < 2; ++i) {
          load_floats<kBlocks>(key_scales + (n * kMmaRows + i * 8) * kBlocks, scales[i]);
        }
        float sums[4] = {};
#pragma unroll
        for (uint b = 0; b < kBlocks; ++b) {
          uint words[4];
          load_matrices((keys ^ 2 * b * kChunk) + n * kMmaRows * kDim, words);
          int dots[4];
          mma_s8(words, queries[b], kDotStart, dots);
#pragma unroll
          for (uint i = 0; i < 4; ++i) {
            const float scaled = multiply(dot_to_float(dots[i]), scales[i / 2][b]);
            sums[i] = add(sums[i], multiply(scaled, query_scales[i % 2][b]));
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
      maximum[r] = kMinusInfinity;
#pragma unroll
      for (uint n = 0; n < kScoreTiles; ++n) {
        maximum[r] = larger_or_nan(maximum[r], p[n][r]);
        maximum[r] = larger_or_nan(maximum[r], p[n][2 + r]);
      }
    }
    reduce(maximum);
    // Partial sum j is of positions j, j + 32, ...: the lane has 16 (n % 2) + lane / 4 and eight further.
    // What stands under one condition goes through the processor side by side.
    float partial[2][kChunkTiles][2] = {};
#pragma unroll
    for (uint chunk = 0; chunk < kChunks; ++chunk) {
      auto* tile = &p[chunk * kChunkTiles];
      if (!needed(chunk)) {
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
          const float value = exponential_of_negative(arith::subtract(tile[n][i], maximum[i % 2]));
          tile[n][i] = seen(chunk * kChunkTiles + n, i) ? value : 0.0F;
          float& sum = partial[i % 2][n][i / 2];
          sum = add(sum, tile[n][i]);
        }
    }
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      const auto& of = partial[r];
      float sum = add(add(of[0][0], of[1][0]), add(of[0][1], of[1][1]));  // 16 apart, then 8
#pragma unroll
      for (uint lanes = kWarp / 2; lanes >= 4; lanes /= 2) {  // 4, 2, 1
        sum = add(sum, __shfl_xor_sync(kAllLanes, sum, lanes));
      }
      poison[r] = arith::subtract(maximum[r], maximum[r]);
      denominator[r] = add(sum, poison[r]);
    }
  }

  /// Exponential times value scale of block b. The scale of a position that a query does not see may be NaN.
  __device__ __forceinline__ void weigh(const float* value_scales, uint n, float (&weights)[4]) const {
    const auto scale = *reinterpret_cast<const float2*>(value_scales + n * kMmaRows);
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      weights[i] = multiply(p[n][i], i < 2 ? scale.x : scale.y);
      if (kView == View::kAnything && !seen(n, i)) weights[i] = 0.0F;
    }
  }

  /// Outputs of block b: `low` + 256 `high`, and what one step of them is worth. A lane has dimensions
  /// lane / 4 and eight further of each sixteen: [2 dimension of two + query].
  __device__ __forceinline__ void sum_values(const Shared<kBlocks>& shared, const Copied<kBlocks>& copied,
                                             uint b, int (&low)[kChunkTiles][4], int (&high)[kChunkTiles][4],
                                             float (&scale)[2]) const {
    const uint lane = lane_index();
    const float* value_scales = copied.value_scales[b] + lane / 4 * 2;
    float largest[2] = {0.0F, 0.0F};
#pragma unroll
    for (uint chunk = 0; chunk < kChunks; ++chunk) {
      if (!needed(chunk)) continue;
#pragma unroll
      for (uint n = 0; n < kChunkTiles; ++n) {
        float weights[4];
        weigh(value_scales, chunk * kChunkTiles + n, weights);
#pragma unroll
        for (uint i = 0; i < 4; ++i) largest[i % 2] = larger_or_nan(largest[i % 2], fabsf(weights[i]));
      }
    }
    reduce(largest);
    float inverse[2];
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      const uint bits = arith::magnitude_bits(largest[r]);
      scale[r] = arith::block_scale(bits, arith::kWeightStep);
      inverse[r] = arith::block_inverse(bits, arith::kWeightLevels);
    }
    uint values[kChunkTiles];
#pragma unroll
    for (uint n = 0; n < kChunkTiles; ++n) {
      const uint dim = b * arith::kBlock + n * kMmaRows + lane % kMmaRows;
      values[n] =
          shared_address(shared.turned + dim * kSplit + (lane / kMmaRows ^ turned_swizzle(dim)) * kChunk);
    }
#pragma unroll
    for (uint chunk = 0; chunk < kChunks; ++chunk) {
      if (!needed(chunk)) continue;
      // A weight is negative only if a scale is: two's complement keeps the bytes' sum true modulo 2^16, and
      // the upper byte is taken as signed.
      uint low_bytes[2], high_bytes[2];
#pragma unroll
      for (uint n = 0; n < kChunkTiles; ++n) {
        float weights[4];
        weigh(value_scales, chunk * kChunkTiles + n, weights);
        uint bits[4];  // what is rounded stands in the low 16 bits
#pragma unroll
        for (uint i = 0; i < 4; ++i) {
          bits[i] = __float_as_uint(add(multiply(weights[i], inverse[i % 2]), arith::kRounder));
        }
        // Of two queries at one position; turned: of query lane / 4 at 2 (lane % 4) and one further of eight.
        const uint near = turn_matrix(__byte_perm(bits[0], bits[1], 0x5410));
        const uint far = turn_matrix(__byte_perm(bits[2], bits[3], 0x5410));
        low_bytes[n] = __byte_perm(near, far, 0x6420);
        high_bytes[n] = __byte_perm(near, far, 0x7531);
      }
#pragma unroll
      for (uint n = 0; n < kChunkTiles; ++n) {
        uint words[4];
        load_matrices(values[n] ^ 2 * chunk * kChunk, words);
        mma_s8u8(words, low_bytes, low[n]);
        mma_s8s8(words, high_bytes, high[n]);
      }
    }
  }
};

/// Where the results of a lane's two queries go, and whether they are wanted.
struct Results {
  uint at[2];  // [T'][H][max_splits]; far below 2^32: there is little scratch
  bool wanted[2];
};

template <uint kBlocks, View kView>
__device__ __forceinline__ void write_outputs(const Shared<kBlocks>& shared, const Copied<kBlocks>& copied,
                                              const Queries<kBlocks, kView>& queries,
                                              const float (&poison)[2], const Results& results,
                                              float* outputs) {
#pragma unroll 1
  for (uint b = 0; b < kBlocks; ++b) {
    int low[kChunkTiles][4] = {};
    int high[kChunkTiles][4] = {};
    float scale[2];
    queries.sum_values(shared, copied, b, low, high, scale);
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      if (!results.wanted[r]) continue;
      const float step = add(scale[r], poison[r]);
      float* out =
          outputs + std::size_t{results.at[r]} * Shared<kBlocks>::kDim + b * arith::kBlock + lane_index() / 4;
#pragma unroll
      for (uint n = 0; n < kChunkTiles; ++n)
#pragma unroll
        for (uint i = 0; i < 2; ++i) {
          const int sum = low[n][2 * i + r] + high[n][2 * i + r] * 256;
          out[n * kMmaRows + i * 8] = multiply(arith::to_float(sum), step);
        }
    }
  }
}

/// Eight query heads as the products' columns.
template <uint kBlocks>
struct Columns {
  uint words[kBlocks][2];
  float scales[2][kBlocks];  // of the lane's two queries
};

/// The query heads of a tile's tokens that belong to a KV head and see something of a split.
struct TileQueries {
  uint token, position;  // of the tile's first token
  uint group, first_head, heads;
  uint first, count;  // those before the first see nothing

  __device__ TileQueries(const Job& job, const AttendConstants& c) {
    const Tile& tile = job.tiles[tile_index()];
    token = tile.token;
    position = tile.position;
    group = c.heads / c.kv_heads;
    first_head = job.kv_head * group;
    heads = c.heads;
    const uint begin = job.split * kSplit;
    first = (begin > position ? begin - position : 0) * group + threadIdx.x / kWarp % kTileWarps * kQueries;
    count = tile.tokens * group;
  }
  /// [T][H]
  __device__ uint head(uint query) const {
    return (token + query / group) * heads + first_head + query % group;
  }
};

/// (Not inlined: three of them in one function spill what they share.)
template <uint kBlocks, View kView>
__device__ __noinline__ void attend(const Shared<kBlocks>& shared, const Copied<kBlocks>& copied,
                                    const Columns<kBlocks>& columns, const uint (&positions)[2],
                                    const Results& results, float2* statistics, float* outputs) {
  Queries<kBlocks, kView> queries(positions);
  queries.score(copied, columns.words, columns.scales);
  float maximum[2], denominator[2], poison[2];
  queries.exponentiate(maximum, denominator, poison);
#pragma unroll
  for (uint r = 0; r < 2; ++r) {
    if (lane_index() < 4 && results.wanted[r]) {
      statistics[results.at[r]] = make_float2(maximum[r], denominator[r]);
    }
  }
  write_outputs(shared, copied, queries, poison, results, outputs);
}

template <uint kBlocks>
__device__ void attend_tile(const Shared<kBlocks>& shared, const Copied<kBlocks>& copied, const Job& job,
                            bool careful, const std::int8_t* query_quants, const float* query_scales,
                            float2* statistics, float* outputs, const AttendConstants& c) {
  const TileQueries tile(job, c);
  const uint lane = lane_index();
  for (uint first = tile.first; first < tile.count; first += kTileWarps * kQueries) {
    // Of the products' columns a lane loads number lane / 4, and gets the results of 2 (lane % 4) and one
    // further.
    Columns<kBlocks> columns;
    const std::size_t loaded = tile.head(min(first + lane / 4, tile.count - 1));
    const auto* quants =
        reinterpret_cast<const uint*>(query_quants + loaded * Shared<kBlocks>::kDim) + lane % 4;
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) {
      columns.words[b][0] = quants[b * 8];
      columns.words[b][1] = quants[b * 8 + 4];
    }
    uint positions[2];
    Results results;
#pragma unroll
    for (uint r = 0; r < 2; ++r) {
      const uint place = first + lane % 4 * 2 + r;
      const uint query = min(place, tile.count - 1);
      results.wanted[r] = place < tile.count;
      positions[r] = min(kSplit, tile.position + query / tile.group + 1 - job.split * kSplit);
      const uint head = tile.head(query);
      results.at[r] = (head - c.first_token * c.heads) * c.max_splits + job.split;
      load_floats<kBlocks>(query_scales + std::size_t{head} * kBlocks, columns.scales[r]);
    }
    if (__all_sync(kAllLanes, positions[0] == kSplit && positions[1] == kSplit)) {
      attend<kBlocks, View::kAll>(shared, copied, columns, positions, results, statistics, outputs);
    } else if (!careful) {
      attend<kBlocks, View::kSome>(shared, copied, columns, positions, results, statistics, outputs);
    } else {
      attend<kBlocks, View::kAnything>(shared, copied, columns, positions, results, statistics, outputs);
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
  extern __shared__ __align__(256) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kBlocks>*>(memory);
  const bool finds = threadIdx.x < kWarp;
  const auto fetch_for = [&](const Job& job, uint side) {
    if (job.valid) {
      fetch<kBlocks>(shared, shared.copied[side],
                     CachedHead<kBlocks>(cache, job.block, c.kv_heads, job.kv_head), job.seen);
    }
    commit_copies();
  };
  auto* finder = reinterpret_cast<Jobs*>(shared.finder[lane_index()]);
  if (finds) {
    *finder = Jobs(AttentionGrid(given_grid, indirect_grid), tables, tiles + c.first_tile);
    finder->next(shared.jobs[0]);
    finder->next(shared.jobs[1]);
  }
  __syncthreads();
  fetch_for(shared.jobs[0], 0);
  for (uint i = 0; shared.jobs[i % kJobs].valid; ++i) {
    const Job& job = shared.jobs[i % kJobs];
    const auto& copied = shared.copied[i % 2];
    wait_copies<0>();
    __syncthreads();  // this job is here for all, and all are done with the one before
    turn_values(shared, job.seen);
    // A scale that is NaN must not reach queries that do not see its position.
    bool careful = false;
#pragma unroll
    for (uint b = 0; b < kBlocks; b += 2) {
      const float scale = copied.value_scales[b + threadIdx.x / kSplit][threadIdx.x % kSplit];
      careful |= scale != scale;
    }
    careful = __syncthreads_or(careful);
    fetch_for(shared.jobs[(i + 1) % kJobs], (i + 1) % 2);
    if (finds) finder->next(shared.jobs[(i + 2) % kJobs]);
    if ((job.members >> tile_index() & 1U) != 0) {
      attend_tile(shared, copied, job, careful, query_quants, query_scales, statistics, outputs, c);
    }
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
