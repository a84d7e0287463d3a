// Attention for heads of 64 and 128 elements on the tensor cores: sixteen query heads of a tile at a time.
// Scores are exact integer products per block of 32 dimensions, as are the sums of weights and values, so the
// result is that of the plain kernel. A weight of 15 bits goes as two bytes: its products with a value are
// those of the lower byte plus 256 times those of the upper one.

#include "backend/cuda/module/kernels/attention.hpp"
#include "backend/cuda/module/kernels/common.cuh"
#include "backend/cuda/module/kernels/mma.cuh"

namespace inferno::cuda {
namespace {

using gpu::AttendConstants;

constexpr unsigned kThreads = 256;
constexpr uint kWarps = kThreads / kWarp;
constexpr uint kSplit = arith::kSplit;
constexpr uint kQueries = kMmaRows;
constexpr uint kSlices = kSplit / kWarp;
/// Positions of a weight or value row, padded so that eight rows lie in different banks.
constexpr uint kPositionStride = kSplit + 16;
/// The same for values, which are written down the columns, too.
constexpr uint kValueStride = kSplit + 8;

template <uint kBlocks>
struct alignas(16) Shared {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  static constexpr uint kQueryStride = kDim + 16;

  std::int8_t values[kDim][kValueStride];                       // transposed
  std::uint8_t weights[2][kBlocks][kQueries][kPositionStride];  // lower and upper bytes
  float scores[kQueries][kSplit];
  float value_scales[kBlocks][kSplit];
  std::int8_t queries[kQueries][kQueryStride];
  float query_scales[kQueries][kBlocks];
  float weight_scales[kQueries][kBlocks];
};

/// One KV head of one cache block of 256 positions, as cpu::BlockLayout has it.
template <uint kBlocks>
struct Head {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  static constexpr std::size_t kPlane = std::size_t{kSplit} * kDim;
  static constexpr std::size_t kScalePlane = std::size_t{kSplit} * kBlocks * sizeof(float);
  static constexpr std::size_t kBytes = 2 * (kPlane + kScalePlane);
  const std::byte* base;

  __device__ const std::int8_t* keys() const { return reinterpret_cast<const std::int8_t*>(base); }
  __device__ const float* key_scales() const { return reinterpret_cast<const float*>(base + kPlane); }
  __device__ const std::int8_t* values() const {
    return reinterpret_cast<const std::int8_t*>(base + kPlane + kScalePlane);
  }
  __device__ const float* value_scales() const {
    return reinterpret_cast<const float*>(base + 2 * kPlane + kScalePlane);
  }
};

__device__ void load_matrices(const void* row, uint (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<uint>(__cvta_generic_to_shared(row))));
}

/// d += a b with unsigned a (weights) and signed b (values).
__device__ void mma_u8s8(const uint (&a)[4], uint b0, uint b1, int (&d)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Fragment a of 16 rows, `stride` bytes apart, and their bytes [first, first + 32).
__device__ void load_rows(const void* rows, uint stride, uint first, uint (&a)[4]) {
  const uint matrix = lane_index() / 8;
  const uint row = matrix % 2 * 8 + lane_index() % 8;
  load_matrices(static_cast<const std::byte*>(rows) + row * stride + first + matrix / 2 * 16, a);
}

/// Value rows of `seen` positions, four by four bytes turned; what is not seen is zero.
template <uint kBlocks>
__device__ void load_values(Shared<kBlocks>& shared, const Head<kBlocks>& head, uint seen) {
  constexpr uint kDim = Shared<kBlocks>::kDim;
  // A warp turns 32 dimensions of 16 positions: whole sectors are read, and few banks are written twice.
  for (uint i = threadIdx.x; i < kDim / 4 * (kSplit / 4); i += kThreads) {
    const uint piece = i / kWarp;
    const uint dim = (piece % kBlocks * 8 + i % 8) * 4;
    const uint position = (piece / kBlocks * 4 + i % kWarp / 8) * 4;
    uint row[4];
#pragma unroll
    for (uint k = 0; k < 4; ++k) {
      row[k] = position + k < seen
                   ? *reinterpret_cast<const uint*>(head.values() + std::size_t{position + k} * kDim + dim)
                   : 0U;
    }
    const uint low01 = __byte_perm(row[0], row[1], 0x5140);  // dims 0, 1 of positions 0, 1
    const uint low23 = __byte_perm(row[2], row[3], 0x5140);
    const uint high01 = __byte_perm(row[0], row[1], 0x7362);  // dims 2, 3
    const uint high23 = __byte_perm(row[2], row[3], 0x7362);
    const uint turned[4] = {__byte_perm(low01, low23, 0x5410), __byte_perm(low01, low23, 0x7632),
                            __byte_perm(high01, high23, 0x5410), __byte_perm(high01, high23, 0x7632)};
#pragma unroll
    for (uint k = 0; k < 4; ++k) *reinterpret_cast<uint*>(&shared.values[dim + k][position]) = turned[k];
  }
  for (uint i = threadIdx.x; i < seen * kBlocks; i += kThreads) {
    shared.value_scales[i % kBlocks][i / kBlocks] = head.value_scales()[i];
  }
}

/// Scores of the warp's 32 positions.
template <uint kBlocks>
__device__ void score(Shared<kBlocks>& shared, const Head<kBlocks>& head, uint seen) {
  constexpr uint kDim = Shared<kBlocks>::kDim;
  const uint lane = lane_index();
  const uint first = threadIdx.x / kWarp * kWarp;
  uint a[kBlocks][4];
  float query_scales[2][kBlocks];
#pragma unroll
  for (uint b = 0; b < kBlocks; ++b) {
    load_rows(shared.queries, Shared<kBlocks>::kQueryStride, b * arith::kBlock, a[b]);
    query_scales[0][b] = shared.query_scales[lane / 4][b];
    query_scales[1][b] = shared.query_scales[lane / 4 + 8][b];
  }
#pragma unroll
  for (uint n = 0; n < kWarp / kMmaTokens; ++n) {
    const uint column = first + n * kMmaTokens;
    if (column >= seen) break;
    // Positions behind `seen` may hold anything: their scores are not looked at.
    const auto* key =
        reinterpret_cast<const uint*>(head.keys() + std::size_t{column + lane / 4} * kDim) + lane % 4;
    const float* scales = head.key_scales() + std::size_t{column + lane % 4 * 2} * kBlocks;
    float sums[4] = {};
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) {
      const uint words[2] = {key[b * 8], key[b * 8 + 4]};
      int dots[4];
      mma_s8(a[b], words, kDotStart, dots);
#pragma unroll
      for (uint i = 0; i < 4; ++i) {
        const float scaled = multiply(dot_to_float(dots[i]), scales[i % 2 * kBlocks + b]);
        sums[i] = add(sums[i], multiply(scaled, query_scales[i / 2][b]));
      }
    }
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      shared.scores[lane / 4 + i / 2 * 8][column + lane % 4 * 2 + i % 2] = sums[i];
    }
  }
}

/// One warp, one query: maximum, denominator, and the weights as two bytes. `count` positions are seen; none:
/// zeros.
template <uint kBlocks>
__device__ void weigh(Shared<kBlocks>& shared, uint query, uint count, float2* statistics) {
  const uint lane = lane_index();
  const float* scores = shared.scores[query];
  float p[kSlices];
  float maximum = scores[0];
#pragma unroll
  for (uint i = 0; i < kSlices; ++i) {
    p[i] = scores[i * kWarp + lane];
    if (i * kWarp + lane < count && p[i] > maximum) maximum = p[i];
  }
#pragma unroll
  for (unsigned half = kWarp / 2; half > 0; half /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, maximum, half);
    if (other > maximum) maximum = other;
  }
  float denominator = 0.0F;
#pragma unroll
  for (uint i = 0; i < kSlices; ++i) {
    p[i] = i * kWarp + lane < count ? arith::exponential(arith::subtract(p[i], maximum)) : 0.0F;
    denominator = add(denominator, p[i]);
  }
  denominator = tree_sum(denominator);
  if (lane == 0 && statistics != nullptr) *statistics = make_float2(maximum, denominator);
#pragma unroll
  for (uint b = 0; b < kBlocks; ++b) {
    float a[kSlices];
    uint largest = 0;
#pragma unroll
    for (uint i = 0; i < kSlices; ++i) {
      // Behind `count` the scales are of other tokens' positions, or of nothing.
      a[i] = i * kWarp + lane < count ? multiply(p[i], shared.value_scales[b][i * kWarp + lane]) : 0.0F;
      largest = max(largest, arith::magnitude_bits(a[i]));
    }
    largest = __reduce_max_sync(kAllLanes, largest);
    const float inverse = arith::block_inverse(largest, arith::kWeightLevels);
#pragma unroll
    for (uint i = 0; i < kSlices; ++i) {
      // A weight is negative only if a scale is: two's complement keeps the bytes' sum true modulo 2^16, and
      // the upper byte is taken as signed.
      const int weight = arith::quantize(a[i], inverse);
      shared.weights[0][b][query][i * kWarp + lane] = static_cast<std::uint8_t>(weight & 0xFF);
      shared.weights[1][b][query][i * kWarp + lane] = static_cast<std::uint8_t>(weight >> 8);
    }
    if (lane == 0) shared.weight_scales[query][b] = arith::block_scale(largest, arith::kWeightStep);
  }
}

/// The query heads [first, first + queries) of a tile, [tokens][group] as they stand, over one split.
template <uint kBlocks>
struct Item {
  uint4 tile;  // first token, tokens, position of the first, offset of the table
  uint split, kv_head, group, begin, end, first, queries;

  __device__ std::size_t head(uint q, const AttendConstants& c) const {  // [T][H]
    return std::size_t{tile.x + (first + q) / group} * c.heads + kv_head * group + (first + q) % group;
  }
  __device__ uint count(uint q) const { return min(end, tile.z + (first + q) / group + 1) - begin; }
  __device__ std::size_t result(uint q, const AttendConstants& c) const {  // [T'][H][max_splits]
    return (head(q, c) - std::size_t{c.first_token} * c.heads) * c.max_splits + split;
  }
};

template <uint kBlocks>
__device__ void attend_queries(Shared<kBlocks>& shared, const Head<kBlocks>& cached,
                               const Item<kBlocks>& item, const std::int8_t* query_quants,
                               const float* query_scales, float2* statistics, float* outputs,
                               const AttendConstants& c) {
  constexpr uint kDim = Shared<kBlocks>::kDim;
  const uint warp = threadIdx.x / kWarp;
  const uint lane = lane_index();
  for (uint i = threadIdx.x; i < kQueries * kDim / 4; i += kThreads) {
    const uint q = i / (kDim / 4);
    const uint word = i % (kDim / 4);
    reinterpret_cast<uint*>(shared.queries[q])[word] =
        q < item.queries ? reinterpret_cast<const uint*>(query_quants + item.head(q, c) * kDim)[word] : 0U;
  }
  for (uint i = threadIdx.x; i < kQueries * kBlocks; i += kThreads) {
    const uint q = i / kBlocks;
    shared.query_scales[q][i % kBlocks] =
        q < item.queries ? query_scales[item.head(q, c) * kBlocks + i % kBlocks] : 0.0F;
  }
  __syncthreads();
  score(shared, cached, item.end - item.begin);
  __syncthreads();
#pragma unroll
  for (uint i = 0; i < kQueries / kWarps; ++i) {
    const uint q = i * kWarps + warp;
    if (q < item.queries) weigh(shared, q, item.count(q), statistics + item.result(q, c));
  }
  __syncthreads();
  // Each warp has the dimensions of an eighth of the head.
  constexpr uint kTiles = kDim / kWarps / kMmaTokens;
  const uint first_dim = warp * (kDim / kWarps);
  const uint block = first_dim / arith::kBlock;
  int low[kTiles][4] = {};
  int high[kTiles][4] = {};
  for (uint position = 0; position < item.end - item.begin; position += arith::kBlock) {
    uint low_bytes[4], high_bytes[4];
    load_rows(shared.weights[0][block], kPositionStride, position, low_bytes);
    load_rows(shared.weights[1][block], kPositionStride, position, high_bytes);
#pragma unroll
    for (uint n = 0; n < kTiles; ++n) {
      const auto* row =
          reinterpret_cast<const uint*>(&shared.values[first_dim + n * kMmaTokens + lane / 4][position]) +
          lane % 4;
      const uint values[2] = {row[0], row[4]};
      mma_u8s8(low_bytes, values[0], values[1], low[n]);
      int sums[4];
      mma_s8(high_bytes, values, 0, sums);
#pragma unroll
      for (uint i = 0; i < 4; ++i) high[n][i] += sums[i];
    }
  }
#pragma unroll
  for (uint n = 0; n < kTiles; ++n) {
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      const uint q = lane / 4 + i / 2 * 8;
      if (q >= item.queries) continue;
      const uint dim = first_dim + n * kMmaTokens + lane % 4 * 2 + i % 2;
      outputs[item.result(q, c) * kDim + dim] =
          multiply(arith::to_float(low[n][i] + high[n][i] * 256), shared.weight_scales[q][block]);
    }
  }
  __syncthreads();
}

/// The grid is (splits, K, tiles), given or read from `indirect_grid`; workgroups take its items in turn.
template <uint kBlocks>
__global__ void __launch_bounds__(kThreads)
    attend_tiles(const std::int8_t* query_quants, const float* query_scales, const std::byte* cache,
                 const uint* tables, const uint4* tiles, float2* statistics, float* outputs,
                 AttendConstants c, const uint* indirect_grid) {
  after_previous();
  extern __shared__ __align__(16) std::byte memory[];
  auto& shared = *reinterpret_cast<Shared<kBlocks>*>(memory);
  const bool indirect = indirect_grid != nullptr;
  const uint splits = indirect ? indirect_grid[0] : gridDim.x;
  const uint kv_heads = indirect ? indirect_grid[1] : gridDim.y;
  const uint tile_count = indirect ? indirect_grid[2] : gridDim.z;
  const std::uint64_t items = std::uint64_t{splits} * kv_heads * tile_count;
  std::uint64_t index = blockIdx.x;
  if (!indirect) index += gridDim.x * (blockIdx.y + std::uint64_t{gridDim.y} * blockIdx.z);
  const std::uint64_t step = indirect ? gridDim.x : items;
  for (; index < items; index += step) {
    Item<kBlocks> item{};
    item.split = static_cast<uint>(index % splits);
    item.kv_head = static_cast<uint>(index / splits % kv_heads);
    item.tile = tiles[c.first_tile + index / splits / kv_heads];
    item.group = c.heads / c.kv_heads;
    item.begin = item.split * kSplit;
    item.end = min(item.begin + kSplit, item.tile.z + item.tile.y);
    if (item.begin >= item.end) continue;
    const Head<kBlocks> head{cache +
                             (std::size_t{tables[item.tile.w + item.split]} * c.kv_heads + item.kv_head) *
                                 Head<kBlocks>::kBytes};
    load_values(shared, head, item.end - item.begin);
    // Query heads of tokens before the split see nothing of it.
    const uint skipped = item.begin > item.tile.z ? item.begin - item.tile.z : 0;
    const uint all = item.tile.y * item.group;
    for (item.first = skipped * item.group; item.first < all; item.first += kQueries) {
      item.queries = min(kQueries, all - item.first);
      attend_queries(shared, head, item, query_quants, query_scales, statistics, outputs, c);
    }
  }
}

template <uint kBlocks>
Launch launch_for(const Command& command) {
  const dim3 grid = command.indirect_grid != nullptr ? dim3(kIndirectGroups)
                                                     : dim3(command.grid.x, command.grid.y, command.grid.z);
  return {address_of(attend_tiles<kBlocks>), grid, dim3(kThreads), sizeof(Shared<kBlocks>), 7, true};
}

}  // namespace

Launch plan_attend_tiles(const Command& command) {
  const auto& c = constants_of<AttendConstants>(command);
  if (c.block_size != kSplit || c.head_dim != c.padded_dim) return {};
  if (c.head_dim == 128) return launch_for<4>(command);
  if (c.head_dim == 64) return launch_for<2>(command);
  return {};
}

}  // namespace inferno::cuda
