#pragma once

#include "backend/cuda/module/kernels/attention_items.cuh"

/// What workgroups of attend_tiles do: a bundle of tiles, one for each two warps, and a split at a time.
namespace inferno::cuda {

/// Tiles of a bundle, and warps for each of them.
constexpr uint kBundle = 8;
constexpr uint kTileWarps = 2;

/// The warp's tile of the bundle.
__device__ inline uint tile_index() {
  return threadIdx.x / (kTileWarps * kWarp);
}

/// A tile: first token, tokens, position of the first, offset of the row's table.
struct Tile {
  uint token, tokens, position, table;
};

/// What a workgroup does at a time: the tiles of a bundle that see the same cache block in a split.
struct Job {
  bool valid;
  uint split, kv_head;
  uint block;    // of the cache
  uint seen;     // positions that any of the tiles sees
  uint members;  // a bit for each tile
  Tile tiles[kBundle];
};

/// Finds a workgroup's jobs, one after the other. One warp does so; between jobs what it knows stands in
/// shared memory, because scores need the registers.
class Jobs {
 public:
  __device__ Jobs(const AttentionGrid& grid, const uint* tables, const uint4* tiles)
      : grid_(grid),
        tables_(tables),
        tiles_(tiles),
        bundles_((grid.tiles + kBundle - 1) / kBundle),
        items_(grid.splits * grid.kv_heads * bundles_),
        item_(blockIdx.x),
        stride_(2 * (gridDim.x - 1 - blockIdx.x) + 1) {}

  /// Writes the next job down, or that there is none.
  __device__ void next(Job& job) {
    while (pending_ == 0 && item_ < items_) {
      look();
      // There and back again: what a later bundle sees of its last split is more, and every workgroup gets
      // some of all. (Round after round in one direction, a quarter of the processors' time was idle.)
      item_ += stride_;
      stride_ = 2 * gridDim.x - stride_;
    }
    const bool valid = pending_ != 0;
    const uint leader = valid ? __ffs(static_cast<int>(pending_)) - 1 : 0;
    const uint block = __shfl_sync(kAllLanes, block_, leader);
    const bool mine = (pending_ >> lane_index() & 1U) != 0 && block_ == block;
    const uint seen = __reduce_max_sync(kAllLanes, mine ? seen_ : 0U);
    const uint members = __ballot_sync(kAllLanes, mine);
    pending_ &= ~members;
    if (lane_index() < kBundle) job.tiles[lane_index()] = tile_;
    if (lane_index() == 0) {
      job.valid = valid;
      job.split = split_;
      job.kv_head = kv_head_;
      job.block = block;
      job.seen = seen;
      job.members = members;
    }
  }

 private:
  /// Lane i looks at tile i of the item's bundle.
  __device__ void look() {
    const uint index = item_ % bundles_ * kBundle + lane_index();
    kv_head_ = item_ / bundles_ % grid_.kv_heads;
    split_ = item_ / bundles_ / grid_.kv_heads;
    bool sees = false;
    if (lane_index() < kBundle && index < grid_.tiles) {
      const uint4 tile = tiles_[index];
      tile_ = {tile.x, tile.y, tile.z, tile.w};
      const uint end = tile_.position + tile_.tokens;
      sees = split_ * arith::kSplit < end;
      if (sees) {
        seen_ = min(static_cast<uint>(arith::kSplit), end - split_ * arith::kSplit);
        block_ = tables_[tile_.table + split_];
      }
    }
    pending_ = __ballot_sync(kAllLanes, sees);
  }

  AttentionGrid grid_;
  const uint* tables_;
  const uint4* tiles_;
  uint bundles_;
  uint items_, item_;  // far below 2^32: there is little scratch for splits
  uint stride_;        // to the next item
  uint split_ = 0, kv_head_ = 0;
  uint pending_ = 0;  // tiles of the item that still have to be done
  // Of the lane's tile.
  Tile tile_ = {};
  uint seen_ = 0, block_ = 0;
};

}  // namespace inferno::cuda
