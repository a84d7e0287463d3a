#pragma once

#include "backend/cuda/module/kernels/attention_items.cuh"

/// What workgroups of attend_tiles do: a bundle of tiles, one for each warp, and a split at a time.
namespace inferno::cuda {

/// Tiles of a bundle, and warps of a workgroup.
constexpr uint kBundle = 8;

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
  uint members;  // a bit for each warp
  Tile tile;     // this warp's
};

/// Finds a workgroup's jobs, one after the other; every warp does so by itself. (Asking for the next item's
/// tiles and tables ahead costs registers that the scores need, and was 5 % slower.)
class Jobs {
 public:
  __device__ Jobs(const AttentionGrid& grid, const uint* tables, const uint4* tiles)
      : grid_(grid),
        tables_(tables),
        tiles_(tiles),
        bundles_((grid.tiles + kBundle - 1) / kBundle),
        items_(grid.splits * grid.kv_heads * bundles_),
        item_(blockIdx.x) {}

  __device__ Job next() {
    while (pending_ == 0) {
      if (item_ >= items_) return {};
      look();
      item_ += gridDim.x;
    }
    const uint leader = __ffs(static_cast<int>(pending_)) - 1;
    const uint block = __shfl_sync(kAllLanes, block_, leader);
    const bool mine = (pending_ >> lane_index() & 1U) != 0 && block_ == block;
    Job job{true,
            split_,
            kv_head_,
            block,
            __reduce_max_sync(kAllLanes, mine ? seen_ : 0U),
            __ballot_sync(kAllLanes, mine),
            {}};
    pending_ &= ~job.members;
    const uint warp = threadIdx.x / kWarp;
    job.tile = {__shfl_sync(kAllLanes, tile_.token, warp), __shfl_sync(kAllLanes, tile_.tokens, warp),
                __shfl_sync(kAllLanes, tile_.position, warp), __shfl_sync(kAllLanes, tile_.table, warp)};
    return job;
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
  uint split_ = 0, kv_head_ = 0;
  uint pending_ = 0;  // tiles of the item that still have to be done
  // Of the lane's tile.
  Tile tile_ = {};
  uint seen_ = 0, block_ = 0;
};

}  // namespace inferno::cuda
