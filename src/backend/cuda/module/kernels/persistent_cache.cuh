#pragma once

#include "backend/cuda/module/kernels/persistent_block.cuh"

/// The cache as the persistent kernels read it.
namespace inferno::cuda::persistent {

/// One KV head of a cache block, in cpu::BlockLayout's order.
template <uint kDim>
struct CacheHead {
  static constexpr uint kBlocks = kDim / arith::kBlock;
  static constexpr uint kBytes = 2 * kSplit * (kDim + kBlocks * sizeof(float));
  std::byte* base;

  __device__ std::byte* key(uint p) const { return base + p * kDim; }
  __device__ float* key_scales(uint p) const {
    return reinterpret_cast<float*>(base + kSplit * kDim) + p * kBlocks;
  }
  __device__ std::byte* value(uint p) const { return base + kBytes / 2 + p * kDim; }
  __device__ float* value_scales(uint p) const {
    return reinterpret_cast<float*>(base + kBytes / 2 + kSplit * kDim) + p * kBlocks;
  }
};

template <typename Model>
__device__ inline CacheHead<Model::kHeadDim> cache_head(std::byte* cache, const Job& job, uint kv_head) {
  const PersistentStep& step = shared().step;
  const uint block = step.table[step.table_offsets[job.row] + job.split];
  return {cache + (std::size_t{block} * Model::kKvHeads + kv_head) * CacheHead<Model::kHeadDim>::kBytes};
}

__device__ inline bool is_last(const Job& job) {
  return job.split == shared().position[job.row] / kSplit;
}
/// Positions of a split that stand in the cache: all but the current one.
__device__ inline uint cached_of(const Job& job) {
  return is_last(job) ? shared().position[job.row] % kSplit : kSplit;
}

/// A split's cache as tiles of the ring: the scales of keys and values, then keys, then values.
template <uint kDim>
struct CacheTiles {
  static constexpr uint kScaleBytes = kSplit * (kDim / arith::kBlock) * sizeof(float);
  static constexpr uint kPositions = kTileBytes / kDim / (2 * kWarp) * (2 * kWarp);  // of a tile
  static constexpr uint kMost = 1 + 2 * (kSplit / kPositions);
  static_assert(2 * kScaleBytes <= kTileBytes && kSplit % kPositions == 0);

  static __device__ uint of_part(uint cached) { return (cached + kPositions - 1) / kPositions; }
  static __device__ uint count(uint cached) { return cached == 0 ? 0 : 1 + 2 * of_part(cached); }
};

}  // namespace inferno::cuda::persistent
