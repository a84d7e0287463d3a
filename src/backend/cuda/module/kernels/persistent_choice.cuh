#pragma once

#include "backend/cuda/module/kernels/persistent_block.cuh"
#include "sampling/fixed_exp.hpp"

/// Choosing the largest logit, and what the kernels of one and of several rows share on the host's side.
namespace inferno::cuda::persistent {

constexpr uint kKeyOfMinusInfinity = 0x007FFFFFU;
constexpr uint kKeyOfNan = 0xFFFFFFFFU;

struct Best {
  uint key = kKeyOfMinusInfinity;
  uint index = 0xFFFFFFFFU;

  __device__ void take(uint other_key, uint other_index) {
    if (other_key > key || (other_key == key && other_index < index)) {
      key = other_key;
      index = other_index;
    }
  }
  __device__ void reduce() {
#pragma unroll
    for (uint step = kWarp / 2; step > 0; step /= 2) {
      take(__shfl_xor_sync(kAllLanes, key, step), __shfl_xor_sync(kAllLanes, index, step));
    }
  }
};

template <typename Model>
bool is_of_shape(const PersistentModel& of) {
  return of.hidden_size == Model::kHidden && of.ffn_size == Model::kFfn && of.heads == Model::kHeads &&
         of.kv_heads == Model::kKvHeads && of.head_dim == Model::kHeadDim;
}

}  // namespace inferno::cuda::persistent
