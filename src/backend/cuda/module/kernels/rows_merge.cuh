#pragma once

#include "backend/cuda/module/kernels/persistent_stream.cuh"
#include "backend/cuda/module/kernels/rows_block.cuh"

/// Merging the splits of attention in the persistent kernel of several rows: a warp has 32 dimensions of a
/// query head of a row.
namespace inferno::cuda::persistent {

constexpr uint kMergeAtOnce = 4;  // outputs that a lane asks for at once

/// Maximum and denominator of a split.
struct Statistics {
  float maximum, denominator;
};
template <typename Model>
__device__ __forceinline__ Statistics await_statistics(const Job& job, uint head, uint epoch) {
  const std::uint64_t* words = statistics_of<Model>(job, head);
  Patience patience(Awaited::word);
  for (;;) {
    const WordPair pair = read_pair(words);
    if (__all_sync(kAllLanes, is_of(pair.first, epoch) && is_of(pair.second, epoch)))
      return {value_of(pair.first), value_of(pair.second)};
    patience.lose();
  }
}

/// Splits in ascending order.
template <typename Model>
__device__ __noinline__ void merge_rows(uint epoch) {
  const Shared& block = shared();
  const uint lane = lane_index();
  const uint rows = block.step.rows;
  constexpr uint kPieces = Model::kMixed / arith::kBlock;
#pragma unroll 1
  for (uint piece = blockIdx.x + threadIdx.x / kWarp * gridDim.x; piece < rows * kPieces;
       piece += kWarps * gridDim.x) {
    const uint row = piece % rows;
    const uint splits = block.position[row] / kSplit + 1;
    if (splits == 1) continue;
    const uint column = piece / rows * arith::kBlock + lane;
    const uint head = column / Model::kHeadDim;
    const auto job_of = [&](uint split) {
      return Job{static_cast<std::uint16_t>(row), static_cast<std::uint16_t>(min(split, splits - 1))};
    };
    const auto load = [&](uint split, std::uint64_t(&words)[kMergeAtOnce]) {
#pragma unroll
      for (uint i = 0; i < kMergeAtOnce; ++i)
        words[i] = read_word(outputs_of<Model>(job_of(split + i), head) + column % Model::kHeadDim);
    };
    std::uint64_t words[kMergeAtOnce];
    load(0, words);  // on its way while the statistics are
    uint largest = 0;
    Statistics mine{};
    for (uint first = 0; first < splits; first += kWarp) {
      mine = await_statistics<Model>(job_of(first + lane), head, epoch);
      largest = max(largest, ordered(mine.maximum));
    }
    const float maximum = from_ordered(__reduce_max_sync(kAllLanes, largest));
    float sum = 0.0F;
    float denominator = 0.0F;
    float factor = 0.0F;
    float scaled = 0.0F;
#pragma unroll 1
    for (uint split = 0; split < splits; split += kMergeAtOnce) {
      if (split % kWarp == 0) {
        if (splits > kWarp) mine = await_statistics<Model>(job_of(split + lane), head, epoch);
        factor = arith::exponential(arith::subtract(mine.maximum, maximum));
        scaled = multiply(factor, mine.denominator);
      }
      float outputs[kMergeAtOnce];
      for (Patience patience(Awaited::word);; patience.lose()) {
        bool here = true;
#pragma unroll
        for (uint i = 0; i < kMergeAtOnce; ++i) {
          here &= is_of(words[i], epoch);
          outputs[i] = value_of(words[i]);
        }
        if (__all_sync(kAllLanes, here)) break;
        load(split, words);
      }
      if (split + kMergeAtOnce < splits) load(split + kMergeAtOnce, words);
#pragma unroll
      for (uint i = 0; i < kMergeAtOnce; ++i) {
        const float weight = __shfl_sync(kAllLanes, factor, (split + i) % kWarp);
        const float part = __shfl_sync(kAllLanes, scaled, (split + i) % kWarp);
        if (split + i < splits) {
          denominator = add(denominator, part);
          sum = add(sum, multiply(weight, outputs[i]));
        }
      }
    }
    publish_quants(mixed_words(), row, column / arith::kBlock, multiply(sum, arith::reciprocal(denominator)),
                   epoch);
  }
}

}  // namespace inferno::cuda::persistent
