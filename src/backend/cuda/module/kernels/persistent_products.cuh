#pragma once

#include "backend/cuda/module/kernels/exchange.cuh"
#include "backend/cuda/module/persistent_plan.hpp"
#include "backend/cuda/persistent.hpp"

/// The matrix products of the persistent kernel. A block owns whole panels of 8 rows of each matrix. Their
/// weights come through a ring of shared memory in the order in which they are used, fetched by one thread
/// that runs ahead.
///
/// A warp owns columns, not rows: the half segments (128 columns) number w, w + 8, ... of the vector. So it
/// waits for, weighs and quantizes what it needs by itself, and no barrier stands between the vector's
/// arrival and the first product; a lane has row lane % 8 and block lane / 8 of the half segment. The terms
/// (dot * scale * scale) meet in shared memory, where the row's four lanes add them in the contract's order.
namespace inferno::cuda::persistent {

constexpr uint kWarps = 8;  // that multiply
constexpr uint kThreads = kWarps * kWarp;
constexpr uint kNormWarp = kWarps;  // sums squares and softmax denominators beside them
constexpr uint kFetchWarp = kWarps + 1;
constexpr uint kAllThreads = (kWarps + 2) * kWarp;
constexpr uint kNormThreads = kThreads + kWarp;

// Barriers beside number 0, __syncthreads.
constexpr uint kSquaresReady = 1;  // the vector stands in shared memory for the norm warp
constexpr uint kFactorReady = 2;   // the norm warp has its answer
constexpr uint kTermsReady = 3;    // of the warps that multiply
constexpr uint kStepDone = 4;      // theirs and the norm warp's

constexpr uint kHalf = arith::kSegment / 2;  // columns of a half segment
constexpr uint kHalfBlocks = kSegmentBlocks / 2;
constexpr uint kTileUnits = 4;  // segments of a panel that one bulk copy brings
constexpr uint kTileBytes = kTileUnits * kQ8SegmentBytes;
constexpr uint kTermStride = kSegmentBlocks * gpu::kPanel + gpu::kPanel;  // padded against bank conflicts
constexpr uint kMostItems = kPersistentItems;  // (panel, half segment) whose weights stand in registers
constexpr uint kSlots = kPersistentSlots;      // of the ring
constexpr uint kMostOwnRows = kPersistentOwnRows;
constexpr uint kMostGroup = 6;  // query heads of a KV head: a warp each, beside key and value

/// What blocks share of one matrix, and a block's part.
struct Share {
  uint segments;
  uint first_panel;
  uint panels;  // of this block
  uint batch;   // panels that are worked on together

  Share() = default;
  __device__ Share(uint rows, uint columns, uint most_batch) : segments(columns / arith::kSegment) {
    const uint all = rows / gpu::kPanel;
    first_panel = static_cast<uint>(std::uint64_t{all} * blockIdx.x / gridDim.x);
    panels = static_cast<uint>(std::uint64_t{all} * (blockIdx.x + 1) / gridDim.x) - first_panel;
    batch = most_batch;
  }
  __device__ uint batches() const { return (panels + batch - 1) / batch; }
  __device__ uint batch_panels(uint index) const { return min(batch, panels - index * batch); }
  __device__ uint batch_tiles(uint index) const {
    return (batch_panels(index) * segments + kTileUnits - 1) / kTileUnits;
  }
};

/// Fixed shared memory; behind it lie, in this order: the vector's floats [D], the warps' quantized parts,
/// two buffers of terms, and the ring.
struct Shared {
  std::uint64_t full[kSlots];
  float own_rows[kMostOwnRows];  // residual stream of the rows whose O and down projections the block owns
  float factor;                  // 1 / rms, or a softmax denominator
  uint burst;                    // tiles that may be fetched at a time inside the layers
  Share qkv, output, gate, down, head;
  PersistentModel model;
  PersistentBatches batches;
  PersistentStep step;
  int token;
  bool cancelled;
  bool going;             // a step follows
  volatile uint allowed;  // tiles that may have been fetched; one thread writes it
  volatile uint over;     // no step follows
  uint best_key[kThreads], best_index[kThreads];
  // Attention.
  float scores[arith::kSplit];     // then exp(score - maximum)
  float scaled[4][arith::kSplit];  // weights times the scales of the values
  uint largest[5][kWarps];
  int sums[kWarps][128];
  float query_scales[kMostGroup][4];
  float new_scales[2][4];  // key, value
  alignas(16) std::int8_t queries[kMostGroup][128];
  alignas(16) std::int8_t new_rows[2][128];
};

/// A vector on its way into the products: the quantized half segment of a warp.
struct alignas(16) HalfSegment {
  std::int8_t values[kHalf];
  float scales[kHalfBlocks];
};

/// What does not change from launch to launch; the host writes it when it does. Blocks copy it to shared
/// memory: what stands in constant memory is loaded once, ahead of all loops, and fills registers for the
/// whole launch.
__constant__ PersistentModel resident_model;
__constant__ PersistentBatches resident_batches;

extern __shared__ __align__(128) std::byte memory[];

// A block's memory: the ring, Shared, the vector's floats [D], the warps' quantized half segments
// [kWarps][most_rounds], two buffers of terms.
__device__ inline std::byte* ring() {
  return memory;
}
__device__ inline Shared& shared() {
  return *reinterpret_cast<Shared*>(memory + kSlots * kTileBytes);
}
__device__ inline const PersistentModel& model() {
  return shared().model;
}
__device__ inline uint* late_report() {
  return shared().step.late;
}
__device__ inline float* vector_floats() {
  return reinterpret_cast<float*>(&shared() + 1);
}
__device__ inline HalfSegment* half_segments() {
  return reinterpret_cast<HalfSegment*>(vector_floats() + model().hidden_size);
}
__device__ inline float* terms_buffer(uint index) {
  return reinterpret_cast<float*>(half_segments() + kWarps * shared().batches.most_rounds) +
         index * shared().batches.term_floats;
}

/// Where the consumers stand in the stream of tiles, in one number: 2 * tile + which buffer of terms is next
/// (the one before may still be read).
using Stream = uint;
__device__ inline uint tile_of(Stream stream) {
  return stream / 2;
}

/// The thread's number, of which the compiler does not know that it never changes: addresses that are made of
/// it are computed where they are used, not once and for all ahead of the loop over the layers.
__device__ inline uint thread_index() {
  uint thread = threadIdx.x;
  asm volatile("" : "+r"(thread));
  return thread;
}

/// Lets the fetching thread go on: `consumed` tiles have been read by all, `most` more may be fetched now.
__device__ inline void allow(uint consumed, uint most) {
  if (threadIdx.x == 0) shared().allowed = min(consumed + kSlots, shared().allowed + most);
}

/// Waits for the words of a half segment, four for each lane: 2 lane, 2 lane + 1, 64 + those.
__device__ inline void await_half(const std::uint64_t* words, uint lane, uint epoch, float (&x)[4]) {
  Patience patience(Awaited::vector);
  for (;;) {
    const WordPair a = read_pair(words + 2 * lane);
    const WordPair b = read_pair(words + kHalf / 2 + 2 * lane);
    if (is_of(a.first, epoch) && is_of(a.second, epoch) && is_of(b.first, epoch) && is_of(b.second, epoch)) {
      x[0] = value_of(a.first);
      x[1] = value_of(a.second);
      x[2] = value_of(b.first);
      x[3] = value_of(b.second);
      return;
    }
    patience.lose();
  }
}

/// Quantizes four blocks that stand as await_half leaves them: half a warp has a block.
__device__ inline void quantize_half(const float (&x)[4], uint lane, HalfSegment& half) {
#pragma unroll
  for (uint i = 0; i < 2; ++i) {
    uint largest = max(arith::magnitude_bits(x[2 * i]), arith::magnitude_bits(x[2 * i + 1]));
#pragma unroll
    for (uint step = 8; step > 0; step /= 2)
      largest = max(largest, __shfl_xor_sync(kAllLanes, largest, step));
    const float inverse = arith::block_inverse(largest, arith::kInt8Levels);
    const int low = arith::quantize(x[2 * i], inverse);
    const int high = arith::quantize(x[2 * i + 1], inverse);
    reinterpret_cast<std::uint16_t*>(half.values)[i * kWarp + lane] =
        static_cast<std::uint16_t>((low & 0xFF) | (high & 0xFF) << 8);
    if (lane % 16 == 0) half.scales[2 * i + lane / 16] = arith::block_scale(largest, arith::kInt8Step);
  }
}

/// Weights of one (panel, half segment): a lane's row and block.
struct Item {
  int4 low, high;
  float scale;
};

__device__ inline Item load_item(uint first_tile, uint unit, uint half, uint lane) {
  const uint tile = first_tile + unit / kTileUnits;
  const uint slot = tile % kSlots;
  wait_barrier(shared().full + slot, tile / kSlots % 2);
  const std::byte* segment = ring() + slot * kTileBytes + unit % kTileUnits * kQ8SegmentBytes;
  const uint block = half * kHalfBlocks + lane / gpu::kPanel;
  const uint row = lane % gpu::kPanel;
  const auto* chunks = reinterpret_cast<const int4*>(segment + kScaleBytes) + 2 * block * gpu::kPanel + row;
  return {chunks[0], chunks[gpu::kPanel],
          __half2float(reinterpret_cast<const __half*>(segment)[row * kSegmentBlocks + block])};
}

/// What a product reads: words of `epoch`, each times `weight` if that is not nullptr; then the norm warp
/// gets the floats and gives 1 / rms.
struct Input {
  const std::uint64_t* words;
  uint epoch;
  const float* weight;
};

/// Sums of the rows of a batch, in the contract's order: warp p has panel p, four lanes a row. Every lane of
/// a row gets the sum.
__device__ inline float add_terms(const float* terms, uint segments, uint panel, uint lane) {
  const uint row = lane / 4;
  const float* panel_terms = terms + panel * segments * kTermStride + row;
  float total = 0.0F;
  for (uint first = 0; first < segments; first += 4) {
    const uint segment = first + lane % 4;
    float sum = 0.0F;
    if (segment < segments) {
      float term[kSegmentBlocks];
#pragma unroll
      for (uint b = 0; b < kSegmentBlocks; ++b)
        term[b] = panel_terms[segment * kTermStride + b * gpu::kPanel];
#pragma unroll
      for (uint b = 0; b < kSegmentBlocks; ++b) sum = add(sum, term[b]);
    }
    float four[4];
#pragma unroll
    for (uint i = 0; i < 4; ++i) four[i] = __shfl_sync(kAllLanes, sum, lane / 4 * 4 + i);
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      if (first + i < segments) total = add(total, four[i]);
    }
  }
  return total;
}

/// One product. `kTwin`: the matrix has two parts whose rows belong together (gate and up); a batch has as
/// many panels of the second as of the first. `kRounds`: half segments of a warp whose activations stand in
/// registers; a longer vector takes several chunks of rounds. `finish(panel, row, total, twin_total)` is
/// called for each row by the four lanes that have its sum; panel counts from the block's first. `burst`:
/// tiles that may be fetched once the vector has arrived. Returns where the stream stands then.
///
/// Inlined, because a call saves registers to local memory, and with a ring this large there is little L1
/// cache for that.
template <uint kRounds, bool kTwin, typename Finish>
__device__ __forceinline__ Stream product(Stream stream, const Share& whole, const std::uint64_t* input_words,
                                          uint epoch, const float* norm_weight, uint burst, Finish finish) {
  const Share share = whole;
  if (share.panels == 0) return stream;
  const Input input{input_words, epoch, norm_weight};
  const uint thread = thread_index();
  const uint warp = thread / kWarp;
  const uint lane = thread % kWarp;
  const uint halves = 2 * share.segments;
  // Short vectors: several warps have the same columns and share the panels.
  const uint groups = halves < kWarps ? kWarps / halves : 1;
  const uint first_half = halves < kWarps ? warp % halves : warp;
  const uint group = halves < kWarps ? warp / halves : 0;
  const bool works = group < groups;
  const uint chunks = (halves + kWarps * kRounds - 1) / (kWarps * kRounds);
  HalfSegment* mine = half_segments() + warp * shared().batches.most_rounds;
  constexpr uint kFit = kMostItems / kRounds;
  constexpr uint kPanels = kTwin && kFit < 2 ? 2 : kFit;  // loaded ahead, twins included

  uint tile = tile_of(stream);
  uint buffer = stream % 2;
  int4 x_low[kRounds], x_high[kRounds];
  float x_scale[kRounds];
#pragma unroll 1
  for (uint batch = 0; batch < share.batches(); ++batch) {
    const uint count = share.batch_panels(batch);
    const uint tiles = share.batch_tiles(batch);
    const uint all = kTwin ? 2 * count : count;
    float* terms = terms_buffer(buffer);
    buffer ^= 1U;
#pragma unroll 1
    for (uint chunk = 0; chunk < chunks; ++chunk) {
      Item items[kPanels][kRounds];
#pragma unroll
      for (uint p = 0; p < kPanels; ++p) {
#pragma unroll
        for (uint r = 0; r < kRounds; ++r) {
          const uint half = first_half + (chunk * kRounds + r) * kWarps;
          const uint panel = p * groups + group;
          if (!works || panel >= all || half >= halves) continue;
          const bool second = kTwin && panel >= count;
          items[p][r] =
              load_item(second ? tile + tiles : tile,
                        (second ? panel - count : panel) * share.segments + half / 2, half % 2, lane);
        }
      }
      if (batch == 0) {
#pragma unroll
        for (uint r = 0; r < kRounds; ++r) {
          const uint half = first_half + (chunk * kRounds + r) * kWarps;
          if (!works || half >= halves) continue;
          float2 w[2];
          if (input.weight != nullptr) {
            w[0] = __ldg(reinterpret_cast<const float2*>(input.weight + half * kHalf) + lane);
            w[1] = __ldg(reinterpret_cast<const float2*>(input.weight + half * kHalf + kHalf / 2) + lane);
          }
          float x[4];
          await_half(input.words + half * kHalf, lane, input.epoch, x);
          if (input.weight != nullptr) {
            reinterpret_cast<float2*>(vector_floats() + half * kHalf)[lane] = make_float2(x[0], x[1]);
            reinterpret_cast<float2*>(vector_floats() + half * kHalf + kHalf / 2)[lane] =
                make_float2(x[2], x[3]);
            x[0] = multiply(x[0], w[0].x);
            x[1] = multiply(x[1], w[0].y);
            x[2] = multiply(x[2], w[1].x);
            x[3] = multiply(x[3], w[1].y);
          }
          quantize_half(x, lane, mine[chunk * kRounds + r]);
        }
        __syncwarp();
        if (chunk + 1 == chunks && input.weight != nullptr) arrive(kSquaresReady, kNormThreads);
        // The vector is here: what was read before can be replaced, and nobody waits behind the copies.
        if (chunk == 0) allow(tile, burst);
      }
      if (batch == 0 || chunks > 1) {
#pragma unroll
        for (uint r = 0; r < kRounds; ++r) {
          if (!works || first_half + (chunk * kRounds + r) * kWarps >= halves) continue;
          const HalfSegment& half = mine[chunk * kRounds + r];
          const auto* words = reinterpret_cast<const int4*>(half.values) + lane / gpu::kPanel * 2;
          x_low[r] = words[0];
          x_high[r] = words[1];
          x_scale[r] = half.scales[lane / gpu::kPanel];
        }
      }
#pragma unroll
      for (uint p = 0; p < kPanels; ++p) {
#pragma unroll
        for (uint r = 0; r < kRounds; ++r) {
          const uint half = first_half + (chunk * kRounds + r) * kWarps;
          const uint panel = p * groups + group;
          if (!works || panel >= all || half >= halves) continue;
          const Item& item = items[p][r];
          const int dot = dot16(item.high, x_high[r], dot16(item.low, x_low[r], kDotStart));
          terms[panel * share.segments * kTermStride + half / 2 * kTermStride + half % 2 * kWarp + lane] =
              multiply(multiply(dot_to_float(dot), item.scale), x_scale[r]);
        }
      }
    }
    sync(kTermsReady, kThreads);
    tile += kTwin ? 2 * tiles : tiles;
    if (batch + 1 < share.batches()) allow(tile, kSlots);
    if (warp < count) {
      const float total = add_terms(terms, share.segments, warp, lane);
      const float twin = kTwin ? add_terms(terms, share.segments, count + warp, lane) : 0.0F;
      if (batch == 0 && input.weight != nullptr) sync(kFactorReady, kNormThreads);
      finish(batch * share.batch + warp, lane / 4, total, twin);
    } else if (batch == 0 && input.weight != nullptr) {
      sync(kFactorReady, kNormThreads);
    }
  }
  return 2 * tile + buffer;
}

}  // namespace inferno::cuda::persistent
