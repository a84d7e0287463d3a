#pragma once

#include "backend/cuda/module/kernels/persistent_block.cuh"

/// A block of the persistent kernel of several rows: eight warps multiply, three sum squares beside them, one
/// thread fetches.
namespace inferno::cuda::persistent {

constexpr uint kRowSlots = kMostPersistentRows;  // the tokens of a tensor product
constexpr uint kNormWarps = 3;
constexpr uint kRowsFetchWarp = kWarps + kNormWarps;
constexpr uint kRowsAllThreads = (kWarps + kNormWarps + 1) * kWarp;
constexpr uint kRowsNormThreads = (kWarps + kNormWarps) * kWarp;

// Barriers beside those of persistent_block.cuh.
constexpr uint kVectorReady = 5;  // its floats, for the norm warps, which wait
constexpr uint kProductsReady =
    6;  // the norm warps arrive with 1 / rms; the others wait, with their products

constexpr uint kSegmentSums = kRowSlots * gpu::kPanel;  // of one panel and segment: [token][row]
constexpr uint kFinishPanels = kThreads / kSegmentSums;
constexpr uint kStagedStride = arith::kBlock + gpu::kPanel;
constexpr uint kPadding = 4;  // floats between the vectors of two tokens, against bank conflicts

/// A matrix product of several rows as the compiler knows it; see Matrix.
template <uint kColumnsOf, uint kRowsOf, bool kTwinOf, uint kSlots>
struct RowsMatrix {
  static constexpr bool kTwin = kTwinOf;
  static constexpr uint kColumns = kColumnsOf;
  static constexpr uint kSegments = kColumns / arith::kSegment;
  static constexpr uint kHalves = 2 * kSegments;
  static constexpr uint kRounds = (kHalves + kWarps - 1) / kWarps;  // half segments that a warp quantizes
  static constexpr uint kParts = kTwin ? 2 : 1;
  // Short vectors: several warps have the same segment and share the panels.
  static constexpr uint kGroups = kSegments < kWarps ? kWarps / kSegments : 1;
  static constexpr uint kPasses = (kSegments + kWarps - 1) / kWarps;
  static constexpr uint batch() {
    const uint panels = kRowsOf / gpu::kPanel;
    uint most = kFinishPanels;
    if (kTwin) return most;  // the rows of a block of 32 of the next vector
    if (panels != 0 && most > (panels + kUsualBlocks - 1) / kUsualBlocks)
      most = (panels + kUsualBlocks - 1) / kUsualBlocks;
    const uint tiles = (kSegments + kTileUnits - 1) / kTileUnits * kParts;
    if (most > kSlots / 2 / tiles) most = kSlots / 2 / tiles;
    return most == 0 ? 1 : most;
  }
  static constexpr uint kBatch = batch();
  static constexpr uint kPanels = kBatch * kParts;
  static constexpr uint kMine = (kPanels + kGroups - 1) / kGroups;  // panels of a warp
  static constexpr uint kSums = kPanels * kSegments * kSegmentSums;
  static constexpr __host__ __device__ uint tiles(uint panels) {
    return kSegments % kTileUnits == 0 ? panels * (kSegments / kTileUnits)
                                       : (panels * kSegments + kTileUnits - 1) / kTileUnits;
  }
  /// A long panel's tiles are let go pass by pass: as many segments as there are warps.
  static constexpr bool kLong = kBatch == 1 && !kTwin && kPasses > 1 && tiles(1) > kSlots / 2;
  static_assert(kTwin ? 2 * tiles(kBatch) <= kSlots : (kLong || tiles(kBatch) <= kSlots));
  static_assert(kWarps % kTileUnits == 0);
};

/// A segment of the vector as the tensor cores take it: for each pair of blocks and each lane the four words
/// of its token, those of columns 4q.. and 16 + 4q.. of both; then the scales of each token's blocks.
struct alignas(16) RowsSegment {
  uint4 quants[kSegmentBlocks / 2][kWarp];
  float scales[kRowSlots][kSegmentBlocks];
};

/// Where a lane's words of a RowsSegment stand: swapped so that the stores of quantizing meet fewer bank
/// conflicts.
__device__ inline uint quants_place(uint lane) {
  return lane ^ (lane >> 3U & 1U);
}

template <typename Model>
  requires(Model::kRows > 1)
struct alignas(128) Block<Model> : Shared {
  static constexpr uint kVectorStride = Model::kHidden + kPadding;
  static constexpr uint kVectorSegments = Model::kHidden / arith::kSegment;
  static constexpr uint kFloatSegments =
      (Model::kRows * kVectorStride * sizeof(float) + sizeof(RowsSegment) - 1) / sizeof(RowsSegment);
  /// The quantized vector. Behind one of the hidden size are its floats, for the norm warps.
  RowsSegment segments[most(Model::kMostSegments, kVectorSegments + kFloatSegments)];
  alignas(16) float sums[2][Model::kMostSums];      // [panel][segment][token][row]
  float own_rows[Model::kMostOwnRows * kRowSlots];  // residual stream, [row][token]
  float factors[kRowSlots];                         // 1 / rms
  int chosen[kRowSlots];
  float staged[kRowSlots][kStagedStride];  // a block of 32 of each token, before it is quantized
  uint best_keys[kWarps][kRowSlots / 2], best_indices[kWarps][kRowSlots / 2];
  AttentionMemory<Model::kGroup, Model::kHeadDim> attention;

  __device__ float* vector(uint token) {
    return reinterpret_cast<float*>(segments + kVectorSegments) + token * kVectorStride;
  }
  __device__ std::byte* ring() { return reinterpret_cast<std::byte*>(this + 1); }
  __device__ PersistentLayer* layers() {
    return reinterpret_cast<PersistentLayer*>(ring() + Model::kSlots * kTileBytes);
  }
};

/// Where three floats of a vector and their epoch stand, in words of 8 bytes: word `part` of the eight floats
/// of a panel.
__device__ inline std::size_t three_place(uint panel, uint part, uint token) {
  return ((panel / 4 * 3 + part) * (kRowSlots * 4) + token * 4 + panel % 4) * std::size_t{2};
}

/// Hands on eight values of a token, a lane each, of lanes whose number divided by 8 is the same.
__device__ inline void publish_panel(std::uint64_t* words, uint panel, uint token, float value, uint epoch) {
  const uint lane = lane_index();
  const uint part = lane % 8;
  const uint first = lane / 8 * 8;
  const float a = __shfl_sync(kAllLanes, value, first + min(3 * part, 7));
  const float b = __shfl_sync(kAllLanes, value, first + min(3 * part + 1, 7));
  const float c = __shfl_sync(kAllLanes, value, first + min(3 * part + 2, 7));
  if (part < 3 && token < shared().step.rows) {
    publish_three(words + three_place(panel, part, token), a, b, c, epoch);
  }
}

}  // namespace inferno::cuda::persistent
