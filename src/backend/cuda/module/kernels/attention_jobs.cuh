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

/// Finds a workgroup's jobs, one after the other; every warp does so by itself. What the next item needs to
/// know is asked for early, in two steps: its tiles, then (`ask_blocks`, when they are likely to be here)
/// what their tables say.
class Jobs {
 public:
  __device__ Jobs(const AttentionGrid& grid, const uint* tables, const uint4* tiles)
      : grid_(grid),
        tables_(tables),
        tiles_(tiles),
        bundles_((grid.tiles + kBundle - 1) / kBundle),
        items_(grid.splits * grid.kv_heads * bundles_),
        item_(blockIdx.x) {
    ask_tiles();
    ask_blocks();
  }

  __device__ void ask_blocks() {
    if (asked_ && sees_asked()) asked_block_ = tables_[asked_tile_.table + split_of(item_)];
    asked_ = false;
  }

  __device__ Job next() {
    while (pending_ == 0) {
      if (item_ >= items_) return {};
      ask_blocks();
      take();
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
  __device__ uint split_of(uint item) const { return item / bundles_ / grid_.kv_heads; }

  /// Lane i asks for tile i of the bundle of item_.
  __device__ void ask_tiles() {
    asked_tile_ = {};
    if (item_ >= items_) return;
    const uint index = item_ % bundles_ * kBundle + lane_index();
    if (lane_index() < kBundle && index < grid_.tiles) {
      const uint4 tile = tiles_[index];
      asked_tile_ = {tile.x, tile.y, tile.z, tile.w};
    }
    asked_ = true;
  }
  __device__ bool sees_asked() const {
    return asked_tile_.tokens > 0 &&
           split_of(item_) * arith::kSplit < asked_tile_.position + asked_tile_.tokens;
  }

  /// What was asked for is what is done next.
  __device__ void take() {
    const bool sees = sees_asked();
    split_ = split_of(item_);
    kv_head_ = item_ / bundles_ % grid_.kv_heads;
    tile_ = asked_tile_;
    block_ = asked_block_;
    seen_ = min(arith::kSplit, tile_.position + tile_.tokens - split_ * arith::kSplit);
    pending_ = __ballot_sync(kAllLanes, sees);
    item_ += gridDim.x;
    ask_tiles();
  }

  AttentionGrid grid_;
  const uint* tables_;
  const uint4* tiles_;
  uint bundles_;
  uint items_, item_;  // far below 2^32: there is little scratch for splits
  uint split_ = 0, kv_head_ = 0;
  uint pending_ = 0;  // tiles that still have to be done
  bool asked_ = false;
  // Of the lane's tile, now and next.
  Tile tile_ = {}, asked_tile_ = {};
  uint seen_ = 0, block_ = 0, asked_block_ = 0;
};

}  // namespace inferno::cuda
