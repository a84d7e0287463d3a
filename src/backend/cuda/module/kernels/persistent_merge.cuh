#pragma once

#include "backend/cuda/module/kernels/persistent_block.cuh"

/// Merging the splits of attention in the persistent kernel.
namespace inferno::cuda::persistent {

/// An integer that orders like the float, NaN above everything.
__device__ inline uint ordered(float value) {
  const uint bits = __float_as_uint(value);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ inline float from_ordered(uint key) {
  return __uint_as_float((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

constexpr uint kMergeWords = 4;  // that a thread asks for at once

/// Splits in ascending order, 16 dimensions of a query head at a time.
template <typename Model>
__device__ __noinline__ void merge_splits(uint splits, uint epoch) {
  const uint thread = thread_index();
  float* outputs = block_of<Model>().scratch();   // [splits][16]
  float* factors = outputs + splits * kPartDims;  // [splits]
  float* denominators = factors + splits;         // [splits]
  constexpr uint kPieces = Model::kHeads * Model::kHeadDim / kPartDims;
#pragma unroll 1
  for (uint piece = blockIdx.x; piece < kPieces; piece += gridDim.x) {
    const uint head = piece * kPartDims / Model::kHeadDim;
    const uint dim = piece * kPartDims % Model::kHeadDim;
    const std::size_t first = std::size_t{head} * model().max_splits;
    // Outputs, then maxima and denominators; several words at once, because an answer takes long.
    const uint count = splits * (kPartDims + 2);
#pragma unroll 1
    for (uint i = thread; i < count; i += kMergeWords * kThreads) {
      const std::uint64_t* words[kMergeWords];
#pragma unroll
      for (uint j = 0; j < kMergeWords; ++j) {
        const uint k = min(i + j * kThreads, count - 1);
        words[j] =
            k < splits * kPartDims
                ? model().exchange.splits + (first + k / kPartDims) * Model::kHeadDim + dim + k % kPartDims
                : model().exchange.statistics + first * 2 + (k - splits * kPartDims);
      }
      float values[kMergeWords];
      Patience patience(Awaited::word);
      for (bool here = false; !here; patience.lose()) {
        here = true;
        std::uint64_t read[kMergeWords];
#pragma unroll
        for (uint j = 0; j < kMergeWords; ++j) read[j] = read_word(words[j]);
#pragma unroll
        for (uint j = 0; j < kMergeWords; ++j) {
          here &= is_of(read[j], epoch);
          values[j] = value_of(read[j]);
        }
      }
#pragma unroll
      for (uint j = 0; j < kMergeWords; ++j) {
        const uint k = i + j * kThreads;
        if (k < splits * kPartDims) {
          outputs[k] = values[j];
        } else if (k < count) {
          const uint statistic = k - splits * kPartDims;
          (statistic % 2 == 0 ? factors : denominators)[statistic / 2] = values[j];
        }
      }
    }
    sync(kTermsReady, kThreads);
    if (thread < kWarp) {
      uint largest = 0;
      for (uint s = thread; s < splits; s += kWarp) largest = max(largest, ordered(factors[s]));
      const float maximum = from_ordered(__reduce_max_sync(kAllLanes, largest));
      for (uint s = thread; s < splits; s += kWarp) {
        factors[s] = arith::exponential(arith::subtract(factors[s], maximum));
      }
      __syncwarp();
      if (thread < kPartDims) {
        float sum = 0.0F;
        float denominator = 0.0F;
#pragma unroll 4
        for (uint s = 0; s < splits; ++s) {
          denominator = add(denominator, multiply(factors[s], denominators[s]));
          sum = add(sum, multiply(factors[s], outputs[s * kPartDims + thread]));
        }
        publish(model().exchange.mixed + word_place(piece * kPartDims + thread),
                multiply(sum, arith::reciprocal(denominator)), epoch);
      }
    }
    if (piece + gridDim.x < kPieces) sync(kTermsReady, kThreads);
  }
}

}  // namespace inferno::cuda::persistent
