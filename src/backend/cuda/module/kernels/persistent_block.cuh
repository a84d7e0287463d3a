#pragma once

#include "backend/cuda/module/kernels/exchange.cuh"
#include "backend/cuda/module/persistent_plan.hpp"
#include "backend/cuda/persistent.hpp"

/// A block of the persistent kernel: its warps, its share of each matrix, its memory. What depends on the
/// model's shape is known to the compiler (Model is a Shape of persistent.cu): loops unroll to straight code,
/// and arrays stay in registers.
namespace inferno::cuda::persistent {

constexpr uint kWarps = 8;  // that multiply
constexpr uint kThreads = kWarps * kWarp;
constexpr uint kNormWarp = kWarps;  // sums squares and softmax denominators beside them
constexpr uint kFetchWarp = kWarps + 1;
constexpr uint kAllThreads = (kWarps + 2) * kWarp;
constexpr uint kNormThreads = kThreads + kWarp;

// Barriers beside number 0, __syncthreads. At each, all who wait stand at the same place in the program, and
// the others arrive without waiting.
constexpr uint kSquaresReady =
    1;  // the vector, or weights of positions, stand in shared memory for the norm warp, which waits
constexpr uint kSumsReady = 2;   // the norm warp has its answer, and arrives; the others wait
constexpr uint kTermsReady = 3;  // of the warps that multiply
constexpr uint kStepDone = 4;    // these arrive, the norm warps wait

constexpr uint kHalf = arith::kSegment / 2;  // columns of a half segment
constexpr uint kHalfBlocks = kSegmentBlocks / 2;
constexpr uint kTileUnits = 4;  // segments of a panel that one bulk copy brings
constexpr uint kTileBytes = kTileUnits * kQ8SegmentBytes;
constexpr uint kTermStride = kSegmentBlocks * gpu::kPanel + gpu::kPanel;  // padded against bank conflicts
constexpr uint kMostItems = 6;   // (panel, half segment) of a warp whose weights stand in registers
constexpr uint kMostChunk = 3;   // half segments of a warp whose activations stand in registers
constexpr uint kMostSlots = 16;  // of the ring
constexpr uint kUsualBlocks = 132;
constexpr uint kSplit = arith::kSplit;
constexpr uint kPartDims = 16;  // of the smallest part of a head: one 16-byte load of a value row

constexpr uint most(uint a, uint b) {
  return a > b ? a : b;
}

/// A matrix product as the compiler knows it. `kRows`: of one part, 0 if it is not known. `kTwin`: there are
/// two parts, whose rows belong together. `kSlots`: of the ring.
template <uint kColumnsOf, uint kRowsOf, bool kTwinOf, uint kSlots>
struct Matrix {
  static constexpr bool kTwin = kTwinOf;
  static constexpr uint kSegments = kColumnsOf / arith::kSegment;
  static constexpr uint kHalves = 2 * kSegments;
  static constexpr uint kRounds = (kHalves + kWarps - 1) / kWarps;  // half segments of a warp
  static constexpr uint kChunks = (kRounds + kMostChunk - 1) / kMostChunk;
  static constexpr uint kChunk = (kRounds + kChunks - 1) / kChunks;
  // Short vectors: several warps have the same columns and share the panels.
  static constexpr uint kGroups = kHalves < kWarps ? kWarps / kHalves : 1;
  static constexpr uint kParts = kTwin ? 2 : 1;
  /// Panels that are worked on together: their weights must fit the registers, their tiles half the ring.
  static constexpr uint batch() {
    const uint panels = kRowsOf / gpu::kPanel;
    uint most = kMostItems / kChunk * kGroups / kParts;
    if (panels != 0 && most > (panels + kUsualBlocks - 1) / kUsualBlocks)
      most = (panels + kUsualBlocks - 1) / kUsualBlocks;
    const uint tiles = (kSegments + kTileUnits - 1) / kTileUnits * kParts;
    if (most > kSlots / 2 / tiles) most = kSlots / 2 / tiles;
    if (most > kWarps / kParts) most = kWarps / kParts;
    return most == 0 ? 1 : most;
  }
  static constexpr uint kBatch = batch();
  static constexpr uint kPanels = kBatch * kParts;  // with those of the second part
  static constexpr uint kMine = (kPanels + kGroups - 1) / kGroups;
  static constexpr uint kTermFloats = kPanels * kSegments * kTermStride;
  /// Tiles of a batch of so many panels of one part.
  static constexpr __host__ __device__ uint tiles(uint panels) {
    return kSegments % kTileUnits == 0 ? panels * (kSegments / kTileUnits)
                                       : (panels * kSegments + kTileUnits - 1) / kTileUnits;
  }
  /// A long panel's tiles are let go chunk by chunk, so that the next come meanwhile; those of a chunk are
  /// the next in the ring because a round has as many columns as a tile.
  static constexpr bool kLong = kBatch == 1 && !kTwin && kChunks > 1 && tiles(1) > kSlots / 2;
  static_assert(kWarps * kHalf == kTileUnits * arith::kSegment);
};

/// What a block has of a matrix.
struct Share {
  uint first_panel;
  uint panels;

  Share() = default;
  /// Of so many panels, which are dealt `unit` at a time.
  __device__ explicit Share(uint all, uint unit = 1) {
    all /= unit;
    first_panel = all * blockIdx.x / gridDim.x;  // at most 2^25 panels times 2^7 blocks
    panels = (all * (blockIdx.x + 1) / gridDim.x - first_panel) * unit;
    first_panel *= unit;
  }
};

/// Who attends to what in a step: the blocks are shared out among the KV heads, and those of a KV head share
/// its jobs. A job of the first kind is a split for all query heads of the group; one of the second kind is
/// one query head of a split, possibly a part of its dimensions. Splits that are too few to give one to each
/// block are of the second kind.
struct Plan {
  uint kv_head, member, members;
  uint splits;
  uint whole_jobs;  // as many splits, from the first on
  uint head_jobs;   // of the splits behind those
  uint part_bits;   // of a head job: a head has 1 << part_bits parts
  uint streamed;    // whole jobs of this block, whose cache comes through the ring: so many of Shared::jobs

  /// Of so many jobs, those of this block.
  __device__ uint mine(uint jobs) const {
    return member < jobs ? (jobs - member + members - 1) / members : 0;
  }
};

/// A split of a row, for all query heads of a KV head.
struct Job {
  std::uint16_t row, split;
};

/// What a block has in shared memory that does not depend on the model's shape.
struct Shared {
  std::uint64_t full[kMostSlots];
  volatile std::uint64_t factor;  // 1 / rms with the norm that it belongs to
  uint burst;                     // tiles that may be fetched at a time inside the layers
  Share qkv, output, gate, down, head;
  Plan plan;
  PersistentModel model;
  PersistentStep step;
  int token[kMostPersistentRows];
  uint position[kMostPersistentRows];  // of the step that runs
  uint running;                        // a bit for each row that has not ended
  Job jobs[kMostJobs];
  bool cancelled;
  bool going;             // a step follows
  volatile uint planned;  // steps whose positions and jobs stand here
  volatile uint allowed;  // tiles that may have been fetched; one thread writes it
  volatile uint over;     // no step follows
  uint best_key[kWarps], best_index[kWarps];
};

/// A vector on its way into the products: the quantized half segment of a warp.
struct alignas(16) HalfSegment {
  std::int8_t values[kHalf];
  float scales[kHalfBlocks];
};

/// What attention has in shared memory.
template <uint kGroup, uint kDim>
struct AttentionMemory {
  static constexpr uint kBlocks = kDim / arith::kBlock;
  static constexpr uint kPair = kGroup % 2 == 0 ? 2 : 1;  // query heads whose values are summed together
  alignas(16) std::int8_t queries[kGroup][kDim];
  alignas(16) std::int8_t new_rows[2][kDim];  // key, value
  alignas(16) float query_scales[kGroup][kBlocks];
  alignas(16) float new_scales[2][kBlocks];
  alignas(16) int dots[kWarps][kWarp * 2 * kBlocks];  // of 16 elements of a key
  // Weights of 15 bits of a warp's positions: the upper 7, the lower 8.
  alignas(16) std::uint8_t rounded[kWarps][kPair][kBlocks][2][kWarp];
  alignas(16) int sums[kPair][kWarps][kDim];
  float weights[kGroup][kSplit];  // exp(score - maximum)
  alignas(16) uint largest_score[kGroup][kWarps];
  alignas(16) uint largest_scaled[kGroup][kBlocks][kWarps];
  float denominators[kGroup];
};

/// A block's memory. Behind it lie the ring, the pointers of the layers (the last twice), and the scratch of
/// merging, max_splits * (kPartDims + 2) floats.
template <typename Model>
struct alignas(128) Block : Shared {
  alignas(16) float vector[Model::kHidden];  // before it is weighed, for the norm warp
  float own_rows[Model::kMostOwnRows];       // residual stream of the rows whose O and down products are here
  HalfSegment halves[kWarps][Model::kMostRounds];
  float terms[2][Model::kTermFloats];
  AttentionMemory<Model::kGroup, Model::kHeadDim> attention;

  __device__ std::byte* ring() { return reinterpret_cast<std::byte*>(this + 1); }
  __device__ PersistentLayer* layers() {
    return reinterpret_cast<PersistentLayer*>(ring() + Model::kSlots * kTileBytes);
  }
  __device__ float* scratch() { return reinterpret_cast<float*>(layers() + this->model.layers + 1); }
};

/// What does not change from launch to launch; the host writes it when it does. Blocks copy it to shared
/// memory: what stands in constant memory is loaded once, ahead of all loops, and fills registers for the
/// whole launch.
__constant__ PersistentModel resident_model;

extern __shared__ __align__(128) std::byte memory[];

__device__ inline Shared& shared() {
  return *reinterpret_cast<Shared*>(memory);
}
template <typename Model>
__device__ inline Block<Model>& block_of() {
  return *reinterpret_cast<Block<Model>*>(memory);
}
__device__ inline const PersistentModel& model() {
  return shared().model;
}
__device__ inline __noinline__ void give_up(Awaited what) {
  uint* report = shared().step.late;
  report[1] = blockIdx.x;
  report[2] = threadIdx.x;
  report[0] = static_cast<uint>(what);
  __threadfence_system();
  __trap();
}

/// Where the warps that multiply stand in the stream of tiles, in one number: 2 * tile + which buffer of
/// terms is next (the one before may still be read).
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

/// Lets the fetching thread go on: `consumed` tiles have been read by all, `most` more may be fetched now. A
/// thread of the last warp does it, which has the least to do.
template <typename Model>
__device__ inline void allow(uint consumed, uint most) {
  if (threadIdx.x == kThreads - kWarp)
    shared().allowed = min(consumed + Model::kSlots, shared().allowed + most);
}

template <typename Model>
__device__ inline bool has_tile(uint tile) {
  return has_completed(shared().full + tile % Model::kSlots, tile / Model::kSlots % 2);
}
template <typename Model>
__device__ inline void wait_tile(uint tile) {
  wait_barrier(shared().full + tile % Model::kSlots, tile / Model::kSlots % 2);
}

/// arith::block_inverse without a branch around the reciprocal: several of them overlap then.
__device__ inline float block_inverse(uint largest, float levels) {
  float inverse = multiply(levels, arith::reciprocal(__uint_as_float(largest)));
  asm("" : "+f"(inverse));
  return largest < arith::kTinyBits || largest >= arith::kHugeBits ? 0.0F : inverse;
}
/// arith::block_scale, likewise.
__device__ inline float block_scale(uint largest, float step) {
  float scale = multiply(__uint_as_float(largest), step);
  asm("" : "+f"(scale));
  scale = largest >= arith::kHugeBits ? __uint_as_float(arith::kNanBits) : scale;
  return largest < arith::kTinyBits ? 0.0F : scale;
}

/// Where element i of a vector stands among its words: those that a lane reads, four neighbours, are two
/// loads of 16 bytes, each next to those of the neighbouring lanes.
__device__ inline uint word_place(uint i) {
  return i / kHalf * kHalf + (i >> 1U & 1U) * (kHalf / 2) + i % kHalf / 4 * 2 + (i & 1U);
}

}  // namespace inferno::cuda::persistent
