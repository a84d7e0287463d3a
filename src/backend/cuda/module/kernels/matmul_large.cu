// Packed int8 weights times the tokens of prompts, where there are enough of them for large tiles, on compute
// capability 9.0. What bounds it is the number of instructions: each dot product of a block of 32 columns
// takes four of a lane (to float, times weight scale, times token scale, plus), none of which may be
// contracted, so all else is kept out of their way. Warpgroups' products take their operands from shared
// memory by themselves; copies are shared out so that a thread needs few addresses and shared memory is
// written whole lines at a time.

#include <array>
#include <atomic>
#include <cstddef>

#include "backend/cuda/module/kernels/common.cuh"
#include "backend/cuda/module/kernels/matmul.hpp"
#include "backend/cuda/module/kernels/mma.cuh"
#include "backend/cuda/module/kernels/warpgroup.cuh"

namespace inferno::cuda {
namespace {

using gpu::MatmulSwigluConstants;
using gpu::MatrixConstants;

constexpr uint kGroups = 2;  // warpgroups of a tile, 64 rows each
constexpr uint kRows = kGroups * kGroupRows;
constexpr uint kTokens = 64;
constexpr uint kPanels = kRows / gpu::kPanel;
constexpr uint kThreads = kGroups * kGroupThreads;
constexpr uint kTiles = kTokens / kMmaTokens;           // of eight tokens
constexpr uint kUnitTiles = kGroupTokens / kMmaTokens;  // of a product
constexpr uint kHalves = kTiles / kUnitTiles;
constexpr uint kSumsPerTile = 4;  // of a lane
constexpr uint kUnit = 16;        // bytes of most copies
using Order = TokenOrder<kTiles>;
using Sums = float[kTiles][kSumsPerTile];

/// Columns of a token that stand next to each other, in the order that warpgroups' products ask for.
constexpr uint kAtomBytes = 128;
constexpr uint kAtoms = arith::kSegment / kAtomBytes;
constexpr uint kAtomUnits = kAtomBytes / kUnit;
constexpr uint kPanelBytes = gpu::kPanel * arith::kSegment;  // of a segment, without scales

/// A segment of all rows and tokens.
struct alignas(1024) Stage {
  std::byte weights[kPanels * kPanelBytes];         // [panel][chunk][8 rows][16]
  std::byte tokens[kAtoms * kTokens * kAtomBytes];  // [atom][column of the products][16-byte unit, swizzled]
  uint4 weight_scales[kRows];                       // eight halves each
};
struct Memory {
  Stage stages[2];
  // A token's eight scales stand next to each other; they are put in order a segment ahead of their use.
  float token_scales[2][kTokens][kSegmentBlocks];
  float block_scales[2][kSegmentBlocks][kTokens];  // [block][4][lane % 4][4]
  float factors[2][kTokens];
};

/// Keeps the compiler from computing a value again wherever it is used.
__device__ inline uint pinned(uint x) {
  return __shfl_sync(kAllLanes, x, static_cast<int>(lane_index()));
}

/// Where a lane's sums stand in its tile: tile `tile` of eight tokens, sum `i`.
struct Place {
  uint row = threadIdx.x / kWarp * kMmaRows + lane_index() / 4;
  uint token = lane_index() % 4 * (2 * kTiles);

  __device__ uint row_of(uint i) const { return row + i / 2 * (kMmaRows / 2); }
  __device__ uint token_of(uint tile, uint i) const { return token + tile * 2 + i % 2; }
};

/// What a workgroup multiplies: the panels that its tiles share, and the tokens of `tiles` tiles, one behind
/// the other.
struct Operands {
  const std::byte* weights;
  const std::int8_t* quants;
  const float* scales;
  const float* factors;  // or nullptr
  uint tokens, segments;
  uint first_tile, tiles;
};

/// The copies of a thread: segment after segment, tile after tile. Behind the last token there is the last
/// one again; what is computed from it is thrown away.
class Source {
 public:
  template <typename PanelOf>
  __device__ Source(const Operands& operands, PanelOf&& panel_of) : of_(operands) {
    const uint thread = threadIdx.x;
    const std::size_t panel_bytes = std::size_t{of_.segments} * kQ8SegmentBytes;
    weights_ =
        of_.weights + panel_of(thread / kOfPanel) * panel_bytes + kScaleBytes + thread % kOfPanel * kUnit;
    to_weights_ = pinned(thread / kOfPanel * kPanelBytes + thread % kOfPanel * kUnit);
    weight_scales_ =
        of_.weights + panel_of(thread % kRows / gpu::kPanel) * panel_bytes + thread % gpu::kPanel * kUnit;
    const uint row = thread / kAtomUnits;
    to_tokens_ = pinned(row * kAtomBytes + (thread % kAtomUnits ^ row % kMmaTokens) * kUnit);
  }

  __device__ void fetch_weights(Stage& stage) {
    const uint target = shared_address(stage.weights) + to_weights_;
#pragma unroll
    for (uint j = 0; j < kPanelBytes / (kOfPanel * kUnit); ++j) {
      copy_ahead<16>(target + j * kOfPanel * kUnit, weights_ + j * kOfPanel * kUnit);
    }
    if (threadIdx.x < kRows) copy_ahead<16>(&stage.weight_scales[threadIdx.x], weight_scales_);
    weights_ += kQ8SegmentBytes;
    weight_scales_ += kQ8SegmentBytes;
    if (++weights_segment_ < of_.segments) return;
    weights_segment_ = 0;
    weights_ -= std::size_t{of_.segments} * kQ8SegmentBytes;
    weight_scales_ -= std::size_t{of_.segments} * kQ8SegmentBytes;
  }

  __device__ void fetch_tokens(Memory& memory, uint stage) {
    if (tokens_segment_ == 0) {
      const uint row = threadIdx.x / kAtomUnits;
      const uint token = tokens_tile_ * kTokens + Order::of_column(row / kMmaTokens, row % kMmaTokens);
      tokens_ = of_.quants + segments_before(token) * arith::kSegment + threadIdx.x % kAtomUnits * kUnit;
      second_ = static_cast<uint>(segments_before(token + kTiles) - segments_before(token)) * arith::kSegment;
      if (of_.factors != nullptr && threadIdx.x < kTokens) {
        copy_ahead<4>(
            &memory.factors[tokens_tile_ % 2][threadIdx.x],
            of_.factors + min((of_.first_tile + tokens_tile_) * kTokens + threadIdx.x, of_.tokens - 1));
      }
      ++tokens_tile_;
    }
    // A thread has the same columns of two tokens: of columns of the products that are half of them apart.
    static_assert(2 * kThreads * kUnit == kTokens * kAtomBytes);
    const uint target = shared_address(memory.stages[stage].tokens) + to_tokens_;
#pragma unroll
    for (uint atom = 0; atom < kAtoms; ++atom) {
      const uint to = target + atom * kTokens * kAtomBytes;
      copy_ahead<16>(to, tokens_ + atom * kAtomBytes);
      copy_ahead<16>(to + kThreads * kUnit, tokens_ + second_ + atom * kAtomBytes);
    }
    tokens_ += arith::kSegment;
    if (++tokens_segment_ == of_.segments) tokens_segment_ = 0;
  }

  __device__ void fetch_scales(Memory& memory, uint slot) {
    constexpr uint kOfToken = kSegmentBlocks * sizeof(float) / kUnit;
    if (threadIdx.x < kTokens * kOfToken) {
      const uint token = scales_tile_ * kTokens + threadIdx.x / kOfToken;
      const float* from = of_.scales + (segments_before(token) + scales_segment_) * kSegmentBlocks;
      copy_ahead<16>(shared_address(memory.token_scales[slot]) + threadIdx.x * kUnit,
                     from + threadIdx.x % kOfToken * (kUnit / sizeof(float)));
    }
    if (++scales_segment_ < of_.segments) return;
    scales_segment_ = 0;
    ++scales_tile_;
  }

 private:
  static constexpr uint kOfPanel = kThreads / kPanels;  // threads

  /// Segments of the tokens before the one that is number `token` of the workgroup's.
  __device__ std::size_t segments_before(uint token) const {
    return std::size_t{min(of_.first_tile * kTokens + token, of_.tokens - 1)} * of_.segments;
  }

  Operands of_;
  const std::byte* weights_;
  const std::byte* weight_scales_;
  const std::int8_t* tokens_ = nullptr;
  uint second_ = 0;
  uint to_weights_, to_tokens_;
  uint weights_segment_ = 0, tokens_segment_ = 0, scales_segment_ = 0;
  uint tokens_tile_ = 0, scales_tile_ = 0;
};

/// Puts the scales of a segment into the order in which lanes read them. Loads stand well in front of the
/// stores that wait for them.
struct ScaleOrder {
  static constexpr uint kEach = kSegmentBlocks * kTokens / kThreads;
  float own[kEach];

  static __device__ uint first_block() { return threadIdx.x / kTokens * kEach; }

  __device__ void load(const Memory& memory, uint slot) {
    const uint place = threadIdx.x % kTokens;
    const uint token = place / 4 % 4 * (2 * kTiles) + place / 16 * 4 + place % 4;
#pragma unroll
    for (uint i = 0; i < kEach; ++i) own[i] = memory.token_scales[slot][token][first_block() + i];
  }
  __device__ void store(Memory& memory, uint slot) const {
#pragma unroll
    for (uint i = 0; i < kEach; ++i) {
      memory.block_scales[slot][first_block() + i][threadIdx.x % kTokens] = own[i];
    }
  }
};

/// What a lane reads of each segment.
class Reader {
 public:
  __device__ Reader(const Place& place, const Memory& memory) {
    const Stage& first = memory.stages[0];
    // The same in all lanes, which the compiler cannot know.
    const uint group = __shfl_sync(kAllLanes, threadIdx.x / kGroupThreads, 0);
    rows_ = rows_at<kChunkBytes>(shared_address(first.weights) +
                                 group * (kGroupRows / gpu::kPanel * kPanelBytes));
    columns_ = tokens_at(shared_address(first.tokens));
    token_scales_ = pinned(shared_address(memory.block_scales) + lane_index() % 4 * kUnit);
    weight_scales_ = pinned(shared_address(&first.weight_scales[place.row]));
  }

  /// Adds the segment's sums to `totals`. A unit is a block and half of the tokens.
  __device__ __forceinline__ void multiply(uint slot, Sums& totals) const {
    const uint offset = slot * static_cast<uint>(sizeof(Stage));
    const uint rows = rows_ + offset / kProductUnit;
    const uint columns = columns_ + offset / kProductUnit;
    const uint weight_scales = weight_scales_ + offset;
    const uint token_scales = token_scales_ + slot * static_cast<uint>(sizeof Memory::block_scales[0]);
    constexpr uint kUnits = kSegmentBlocks * kHalves;
    Dots dots;
    const auto start = [&](uint unit) {
      const uint block = unit / kHalves;
      const uint column = block * arith::kBlock;
      const uint columns_from = column / kAtomBytes * (kTokens * kAtomBytes) + column % kAtomBytes +
                                unit % kHalves * (kGroupTokens * kAtomBytes);
      start_products<kPanelBytes>(rows + 2 * block * kChunkBytes / kProductUnit,
                                  columns + columns_from / kProductUnit, dots);
    };
    start(0);
    const int4 upper = shared_words(weight_scales);
    const int4 lower = shared_words(weight_scales + gpu::kPanel * kUnit);
    Sums sums = {};
#pragma unroll
    for (uint unit = 0; unit < kUnits; ++unit) {
      const uint block = unit / kHalves;
      const uint half = unit % kHalves;
      float x[2 * kUnitTiles];
#pragma unroll
      for (uint four = 0; four < kUnitTiles / 2; ++four) {
        const uint first = block * kTokens + (half * (kUnitTiles / 2) + four) * 16;
        const int4 words = shared_words(token_scales + first * static_cast<uint>(sizeof(float)));
        x[4 * four] = __int_as_float(words.x);
        x[4 * four + 1] = __int_as_float(words.y);
        x[4 * four + 2] = __int_as_float(words.z);
        x[4 * four + 3] = __int_as_float(words.w);
      }
      const float scales[2] = {half_of(upper, block), half_of(lower, block)};
      wait_products(dots);
#pragma unroll
      for (uint n = 0; n < kUnitTiles; ++n)
#pragma unroll
        for (uint i = 0; i < kSumsPerTile; ++i) {
          float& sum = sums[half * kUnitTiles + n][i];
          const float product = arith::multiply(__int2float_rn(dots[n * kSumsPerTile + i]), scales[i / 2]);
          sum = add(sum, arith::multiply(product, x[2 * n + i % 2]));
        }
      if (unit + 1 < kUnits) start(unit + 1);
    }
#pragma unroll
    for (uint tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (uint i = 0; i < kSumsPerTile; ++i) totals[tile][i] = add(totals[tile][i], sums[tile][i]);
  }

 private:
  static __device__ int4 shared_words(uint address) {
    int4 x;
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address));
    return x;
  }
  uint rows_, columns_, token_scales_, weight_scales_;
};

/// Multiplies the tiles; copies go on over their ends. `finish(totals, first token, factors, free memory)`
/// gets those of the thread for each. Waits for the kernel before when weights are on their way.
template <typename PanelOf, typename Finish>
__device__ __forceinline__ void multiply_tiles(Memory& memory, const Place& place, const Operands& operands,
                                               PanelOf&& panel_of, Finish&& finish) {
  Source source(operands, panel_of);
  uint left = operands.tiles * operands.segments;  // segments to fetch
  source.fetch_weights(memory.stages[0]);
  after_previous();
  source.fetch_tokens(memory, 0);
  source.fetch_scales(memory, 0);
  if (--left > 0) source.fetch_scales(memory, 1);
  commit_copies();
  const Reader reader(place, memory);
  wait_copies<0>();
  __syncthreads();
  ScaleOrder next_scales;
  next_scales.load(memory, 0);
  next_scales.store(memory, 0);
  uint slot = 0;
#pragma unroll 1
  for (uint tile = 0; tile < operands.tiles; ++tile) {
    Sums totals = {};
#pragma unroll 1
    for (uint segment = 0; segment < operands.segments; ++segment) {
      wait_copies<0>();
      copies_before_products();
      __syncthreads();  // this segment is here for all, and all have read the one before
      const uint other = slot ^ 1;
      next_scales.load(memory, other);
      if (left > 0) {
        source.fetch_weights(memory.stages[other]);
        source.fetch_tokens(memory, other);
        if (--left > 0) source.fetch_scales(memory, slot);
      }
      commit_copies();
      next_scales.store(memory, other);
      reader.multiply(slot, totals);
      slot = other;
    }
    finish(totals, (operands.first_tile + tile) * kTokens, memory.factors[tile % 2],
           &memory.stages[slot ^ 1]);
  }
}

/// Writes a thread's totals to y, from the tile's first row and token on. kWhole: all of the tile exists.
template <bool kWhole>
__device__ __forceinline__ void write_tile(const Sums& totals, const Place& place, uint first_row,
                                           uint first_token, const float* factors, float* y,
                                           const MatrixConstants& c) {
  Sums values;
  const auto visit = [&](auto&& act) {
#pragma unroll
    for (uint tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (uint i = 0; i < kSumsPerTile; ++i) {
        const uint row = first_row + place.row_of(i);
        const uint token = place.token_of(tile, i);
        if (!kWhole && (row >= c.rows || first_token + token >= c.tokens)) continue;
        act(values[tile][i], totals[tile][i], token,
            y[std::size_t{first_token + token} * c.y_stride + c.first_out + row]);
      }
  };
  visit([&](float& value, float total, uint token, const float&) {
    value = c.use_factors != 0 ? arith::multiply(total, factors[token]) : total;
  });
  if (c.accumulate != 0) {
    visit([](float& value, float, uint, const float& target) { value = add(target, value); });
  }
  visit([](float& value, float, uint, float& target) { target = value; });
}

/// What is said of a workgroup by its place in the grid: (row tiles, workgroups that share the token tiles,
/// now one for each).
__device__ inline Operands operands_of(const std::byte* weights, const std::int8_t* quants,
                                       const float* scales, const float* factors, uint tokens,
                                       uint segments) {
  const uint all = (tokens + kTokens - 1) / kTokens;
  const uint each = (all + gridDim.y - 1) / gridDim.y;
  const uint first = blockIdx.y * each;
  return {weights, quants,   scales, factors,
          tokens,  segments, first,  first < all ? min(each, all - first) : 0};
}

__global__ void __launch_bounds__(kThreads, 2)
    matmul_large(const std::byte* weights, const std::int8_t* quants, const float* scales,
                 const float* factors, float* y, MatrixConstants c) {
  extern __shared__ __align__(1024) std::byte bytes[];
  auto& memory = *reinterpret_cast<Memory*>(bytes);
  const Place place;
  const uint last_panel = (c.rows - 1) / gpu::kPanel;
  const uint first_row = blockIdx.x * kRows;
  const Operands operands =
      operands_of(weights, quants, scales, c.use_factors != 0 ? factors : nullptr, c.tokens, c.segments);
  if (operands.tiles == 0) return;
  multiply_tiles(
      memory, place, operands, [&](uint panel) { return min(blockIdx.x * kPanels + panel, last_panel); },
      [&](const Sums& totals, uint first_token, const float* tile_factors, void*) {
        if (first_row + kRows <= c.rows && first_token + kTokens <= c.tokens) {
          write_tile<true>(totals, place, first_row, first_token, tile_factors, y, c);
        } else {
          write_tile<false>(totals, place, first_row, first_token, tile_factors, y, c);
        }
      });
}

/// Half of a tile's rows are of the gate, half the same of up; what comes of them is activated and quantized.
__global__ void __launch_bounds__(kThreads, 2)
    matmul_swiglu_large(const std::byte* weights, const std::int8_t* quants, const float* scales,
                        const float* factors, float* floats, std::int8_t* out_quants, float* out_scales,
                        MatmulSwigluConstants c) {
  extern __shared__ __align__(1024) std::byte bytes[];
  auto& memory = *reinterpret_cast<Memory*>(bytes);
  const Place place;
  constexpr uint kHalfRows = kRows / 2;
  constexpr uint kHalfPanels = kPanels / 2;
  const uint panels = c.rows / gpu::kPanel;  // of each half
  const Operands operands = operands_of(weights, quants, scales, factors, c.tokens, c.segments);
  if (operands.tiles == 0) return;
  multiply_tiles(
      memory, place, operands,
      [&](uint panel) {
        return min(blockIdx.x * kHalfPanels + panel % kHalfPanels, panels - 1) + panel / kHalfPanels * panels;
      },
      [&](const Sums& totals, uint first_token, const float* tile_factors, void* free) {
        // Gate and up meet where the last segment was. Rows are exclusive-ored so that what a warp writes
        // lies in different banks.
        static_assert(sizeof(Stage) >= sizeof(float) * kTokens * kRows);
        auto* products = static_cast<float*>(free);
        const auto at = [](uint token, uint row) {
          return token * kRows + (row ^ token / (2 * kTiles) % 4 * gpu::kPanel);
        };
        __syncthreads();  // all have multiplied
#pragma unroll
        for (uint tile = 0; tile < kTiles; ++tile)
#pragma unroll
          for (uint i = 0; i < kSumsPerTile; ++i) {
            const uint token = place.token_of(tile, i);
            products[at(token, place.row_of(i))] = arith::multiply(totals[tile][i], tile_factors[token]);
          }
        __syncthreads();
        // A thread has four rows, eight threads a block of 32.
        constexpr uint kFours = kHalfRows / 4;
        static_assert(kTokens * kFours % kThreads == 0);
#pragma unroll 2
        for (uint round = 0; round < kTokens * kFours / kThreads; ++round) {
          const uint i = round * kThreads + threadIdx.x;
          const uint tile_row = i % kFours * 4;
          const float4 gate = *reinterpret_cast<const float4*>(products + at(i / kFours, tile_row));
          const float4 up = *reinterpret_cast<const float4*>(products + at(i / kFours, kHalfRows + tile_row));
          const float values[4] = {arith::swiglu(gate.x, up.x), arith::swiglu(gate.y, up.y),
                                   arith::swiglu(gate.z, up.z), arith::swiglu(gate.w, up.w)};
          const uint largest = largest_of_fours(values);
          const uint token = first_token + i / kFours;
          const uint row = blockIdx.x * kHalfRows + tile_row;
          if (token >= c.tokens || row >= c.rows) continue;  // whole blocks: rows are a multiple of 32
          const std::size_t to = std::size_t{token} * c.stride + row;
          if ((c.write & gpu::kWriteFloats) != 0) {
            *reinterpret_cast<float4*>(floats + to) = make_float4(values[0], values[1], values[2], values[3]);
          }
          if ((c.write & gpu::kWriteQuants) == 0) continue;
          *reinterpret_cast<uint*>(out_quants + to) = quantize_four(values, largest);
          if (threadIdx.x % 8 == 0)
            out_scales[to / arith::kBlock] = arith::block_scale(largest, arith::kInt8Step);
        }
      });
}

}  // namespace

bool has_large_tiles(unsigned shared_limit) {
  if (sizeof(Memory) > shared_limit) return false;
  // Code for other devices has no products of warpgroups in it. Asked once for each device.
  enum class Answer : unsigned char { unknown, yes, no };
  static std::array<std::atomic<Answer>, 64> answers{};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device < 0 || device >= static_cast<int>(answers.size())) {
    return false;
  }
  auto& answer = answers[static_cast<std::size_t>(device)];
  if (answer == Answer::unknown) {
    cudaFuncAttributes attributes{};
    const bool made = cudaFuncGetAttributes(&attributes, address_of(matmul_large)) == cudaSuccess &&
                      attributes.binaryVersion == 90;
    answer = made ? Answer::yes : Answer::no;
  }
  return answer == Answer::yes;
}

bool large_tiles_fill_device(unsigned rows, unsigned tokens) {
  return gpu::divide_up(rows, kRows) * gpu::divide_up(tokens, kTokens) >= kEnoughGroups;
}

Launch plan_matmul_large(const MatrixConstants& c) {
  return {address_of(matmul_large), dim3(gpu::divide_up(c.rows, kRows), gpu::divide_up(c.tokens, kTokens)),
          dim3(kThreads), static_cast<unsigned>(sizeof(Memory)), 5};
}

Launch plan_matmul_swiglu_large(const MatmulSwigluConstants& c) {
  return {address_of(matmul_swiglu_large),
          dim3(gpu::divide_up(c.rows, kRows / 2), gpu::divide_up(c.tokens, kTokens)), dim3(kThreads),
          static_cast<unsigned>(sizeof(Memory)), 7};
}

}  // namespace inferno::cuda
