#pragma once

#include "backend/cuda/module/kernels/persistent_cache.cuh"

/// The fetching thread of a persistent kernel.
namespace inferno::cuda::persistent {

/// Brings tile after tile in the order of use, as far ahead as it is allowed to.
template <typename Model>
class Fetcher {
 public:
  /// False: the launch is over. `second_panel`: where the panels of a second part begin.
  template <typename Of>
  __device__ bool matrix(const std::byte* weights, const Share& share, uint second_panel = 0) {
    for (uint begin = 0; begin < share.panels; begin += Of::kBatch) {
      const uint panel = share.first_panel + begin;
      const uint count = min(Of::kBatch, share.panels - begin);
      if (!panels<Of>(weights, panel, count)) return false;
      if (Of::kTwin && !panels<Of>(weights, second_panel + panel, count)) return false;
    }
    return true;
  }
  /// The splits that the block attends to as a whole: for each the scales, then keys, then values.
  __device__ bool cache(std::byte* layer) {
    using Tiles = CacheTiles<Model::kHeadDim>;
    const Shared& block = shared();
    for (uint j = 0; j < block.plan.streamed; ++j) {
      const Job job = block.jobs[j];
      const uint cached = cached_of(job);
      if (cached == 0) continue;
      const auto head = cache_head<Model>(layer, job, block.plan.kv_head);
      if (!wait_for_slot()) return false;
      begin_tile(2 * Tiles::kScaleBytes);
      add_to_tile(0, head.key_scales(0), Tiles::kScaleBytes);
      add_to_tile(Tiles::kScaleBytes, head.value_scales(0), Tiles::kScaleBytes);
      ++tile_;
      for (uint part = 0; part < 2; ++part) {
        for (uint first = 0; first < cached; first += Tiles::kPositions) {
          const uint bytes = min(cached - first, Tiles::kPositions) * Model::kHeadDim;
          if (!wait_for_slot()) return false;
          begin_tile(bytes);
          add_to_tile(0, part == 0 ? head.key(first) : head.value(first), bytes);
          ++tile_;
        }
      }
    }
    return true;
  }
  /// Waits until positions and jobs of step `step` are known; the keys and values that blocks have written in
  /// the steps before can then be fetched.
  __device__ bool plan(uint step) const {
    while (shared().planned <= step) {
      if (shared().over != 0) return false;
    }
    __threadfence();
    fence_copies();
    return true;
  }
  /// Copies that are on their way must not meet a block that has left.
  __device__ void finish() const {
    for (uint tile = tile_ > Model::kSlots ? tile_ - Model::kSlots : 0; tile < tile_; ++tile) {
      wait_barrier(shared().full + tile % Model::kSlots, tile / Model::kSlots % 2);
    }
  }

 private:
  template <typename Of>
  __device__ bool panels(const std::byte* weights, uint panel, uint count) {
    const std::byte* source = weights + std::size_t{panel} * (Of::kSegments * kQ8SegmentBytes);
    for (uint bytes = count * Of::kSegments * kQ8SegmentBytes; bytes > 0;) {
      if (!wait_for_slot()) return false;
      const uint piece = min(bytes, kTileBytes);
      begin_tile(piece);
      add_to_tile(0, source, piece);
      source += piece;
      bytes -= piece;
      ++tile_;
    }
    return true;
  }
  __device__ bool wait_for_slot() const {
    while (static_cast<int>(shared().allowed - tile_) <= 0) {
      if (shared().over != 0) return false;
    }
    return true;
  }
  /// The tile will have so many bytes.
  __device__ void begin_tile(uint bytes) const { expect_bytes(shared().full + tile_ % Model::kSlots, bytes); }
  __device__ void add_to_tile(uint offset, const void* source, uint bytes) const {
    const uint slot = tile_ % Model::kSlots;
    bulk_copy(block_of<Model>().ring() + slot * kTileBytes + offset, source, bytes, shared().full + slot);
  }

  uint tile_ = 0;
};

template <typename Model>
__device__ __noinline__ void fetch_all() {
  Block<Model>& block = block_of<Model>();
  Fetcher<Model> fetcher;
  bool going = true;
  for (uint s = 0; s < block.step.steps && going; ++s) {
#pragma unroll 1
    for (uint l = 0; l < model().layers && going; ++l) {
      const PersistentLayer& layer = block.layers()[l];
      going = fetcher.template matrix<typename Model::Qkv>(layer.qkv, block.qkv) && fetcher.plan(s) &&
              fetcher.cache(layer.cache) &&
              fetcher.template matrix<typename Model::Output>(layer.attention_output, block.output) &&
              fetcher.template matrix<typename Model::GateUp>(layer.gate_up, block.gate,
                                                              Model::kFfn / gpu::kPanel) &&
              fetcher.template matrix<typename Model::Down>(layer.down, block.down);
    }
    going = going && fetcher.template matrix<typename Model::Head>(model().lm_head, block.head);
  }
  fetcher.finish();
}

/// The block's shares of all matrices, and how many tiles of its weights are let through at a time.
template <typename Model>
__device__ void share_out(Shared& block) {
  block.qkv = Share(Model::kQkvRows / gpu::kPanel);
  block.output = Share(Model::kHidden / gpu::kPanel);
  block.gate = Share(Model::kFfn / gpu::kPanel, Model::kGateUnit);
  block.down = Share(Model::kHidden / gpu::kPanel);
  block.head = Share((model().vocab_size + gpu::kPanel - 1) / gpu::kPanel);
  const auto tiles = [](auto of, const Share& share) {
    using Of = decltype(of);
    uint sum = 0;
    for (uint begin = 0; begin < share.panels; begin += Of::kBatch)
      sum += Of::kParts * Of::tiles(min(Of::kBatch, share.panels - begin));
    return sum;
  };
  const uint layer_tiles =
      tiles(typename Model::Qkv{}, block.qkv) + tiles(typename Model::Output{}, block.output) +
      tiles(typename Model::GateUp{}, block.gate) + tiles(typename Model::Down{}, block.down);
  // Tiles are let through when a vector has arrived, and in attention.
  const uint points = 1 + (block.qkv.panels > 0 ? 1 : 0) + (block.output.panels > 0 ? 2 : 0) +
                      (block.gate.panels > 0 ? 1 : 0);
  block.burst = layer_tiles > Model::kSlots ? Model::kSlots : (layer_tiles + points - 1) / points;
}

}  // namespace inferno::cuda::persistent
