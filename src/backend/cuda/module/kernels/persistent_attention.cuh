#pragma once

#include "backend/cuda/module/kernels/persistent_merge.cuh"
#include "backend/cuda/module/kernels/persistent_stream.cuh"

/// Attention in the persistent kernel of one row. Splits that are too few to give one to each block are dealt
/// as query heads and parts of them; keys and values are fetched before the query is here. All that is needed
/// of the current position comes from the words of the product before, so nobody waits for the cache to be
/// written.
namespace inferno::cuda::persistent {

/// The block's jobs that are parts of query heads: kDims dimensions of one. `prepared`: its heads are ready.
template <typename Model, uint kDims>
__device__ __forceinline__ void attend_parts(Stream stream, const PersistentLayer& layer, uint epoch,
                                             bool prepared) {
  using Own = AttentionMemory<Model::kGroup, Model::kHeadDim>;
  constexpr uint kDim = Model::kHeadDim;
  constexpr uint kScales = (kDims + arith::kBlock - 1) / arith::kBlock;
  Own& own = block_of<Model>().attention;
  const Plan& plan = shared().plan;
  const uint warp = thread_index() / kWarp;
  const uint lane = thread_index() % kWarp;
  const uint p = warp * kWarp + lane;
  Keys<kDim> keys{};
  Values<kDim, kDims> values{};
  float value_scales[kScales] = {};

  const uint jobs = plan.head_jobs;
  uint split = 0, query = 0, first = 0;
  const auto locate = [&](uint job) {
    first = (job & ((1U << plan.part_bits) - 1U)) * kDims;
    split = plan.whole_jobs + (job >> plan.part_bits) / Model::kGroup;
    query = (job >> plan.part_bits) % Model::kGroup;
  };
  const auto head_of_split = [&] {
    return cache_head<Model>(layer.cache, {0, static_cast<std::uint16_t>(split)}, plan.kv_head);
  };
  const auto cached = [&] { return split + 1 == plan.splits ? shared().position[0] % kSplit : kSplit; };
  const auto load_values = [&] {
    const auto head = head_of_split();
    values.load(head, first, cached(), warp, lane);
    if (warp * kWarp >= cached()) return;
    const float* scales = head.value_scales(p) + first / arith::kBlock;
#pragma unroll
    for (uint b = 0; b < kScales; ++b) value_scales[b] = __ldcg(scales + b);
  };

  locate(plan.member);
  keys.load(head_of_split(), cached(), warp, lane);
  load_values();
  if (!prepared) {
    prepare_heads<Model>(layer, plan.kv_head, 0, epoch);
    sync(kTermsReady, kThreads);
    allow<Model>(tile_of(stream), shared().burst);
  }
#pragma unroll 1
  for (uint job = plan.member;;) {
    const bool last = split + 1 == plan.splits;
    const uint seen = last ? shared().position[0] % kSplit + 1 : kSplit;
    const bool sees = p < seen;
    if (last) {
      keys.insert(own, seen - 1, warp, lane);
      values.insert(own, first, seen - 1, warp, lane);
      if (p == seen - 1) {
#pragma unroll
        for (uint b = 0; b < kScales; ++b) value_scales[b] = own.new_scales[1][first / arith::kBlock + b];
      }
    }
    float score = keys.score(own, query, warp, lane);
    {
      const uint largest = __reduce_max_sync(kAllLanes, sees ? ordered(score) : 0U);
      if (lane == 0) own.largest_score[0][warp] = largest;
    }
    const uint this_split = split;
    const uint this_query = query;
    const uint this_first = first;
    const uint next = job + plan.members;
    const bool more = next < jobs;
    if (more) {
      locate(next);
      keys.load(head_of_split(), cached(), warp, lane);
    }
    sync(kTermsReady, kThreads);
    const float maximum = from_ordered(largest_of(own.largest_score[0]));
    {
      float weight = arith::exponential(arith::subtract(score, maximum));
      asm("" : "+f"(weight));
      score = sees ? weight : 0.0F;
    }
    // Step by step for all blocks, not one by one: what does not depend on each other overlaps.
    uint largest_scaled[kScales];
#pragma unroll
    for (uint b = 0; b < kScales; ++b)
      largest_scaled[b] = largest_magnitude(sees ? multiply(score, value_scales[b]) : 0.0F);
    own.weights[0][p] = score;
#pragma unroll
    for (uint b = 0; b < kScales; ++b) {
      if (lane == 0) own.largest_scaled[0][b][warp] = largest_scaled[b];
    }
    arrive(kSquaresReady, kNormThreads);
    sync(kTermsReady, kThreads);
    // Each lane has the inverse of one block, and hands it to the others.
    const float inverse =
        block_inverse(largest_of(own.largest_scaled[0][lane % kScales]), arith::kWeightLevels);
    uint weights[kScales];
#pragma unroll
    for (uint b = 0; b < kScales; ++b) {
      const float scaled = sees ? multiply(score, value_scales[b]) : 0.0F;
      weights[b] = static_cast<uint>(arith::quantize(scaled, __shfl_sync(kAllLanes, inverse, b)));
    }
#pragma unroll
    for (uint b = 0; b < kScales; ++b) {
      auto& halves = own.rounded[warp][0][b];
      halves[0][Values<kDim, kDims>::place(lane)] = static_cast<std::uint8_t>(weights[b] >> 8U);
      halves[1][Values<kDim, kDims>::place(lane)] = static_cast<std::uint8_t>(weights[b]);
    }
    __syncwarp();
    int sums[1][kPartDims];
    values.template weigh<1>(own, warp, lane, sums);
    values.add_lanes(sums[0], own.sums[0][warp], lane);
    if (more) load_values();
    sync(kSumsReady, kNormThreads);
#pragma unroll 1
    for (uint dim = thread_index(); dim < kDims; dim += kThreads) {
      int sum = 0;
#pragma unroll
      for (uint w = 0; w < kWarps; ++w) sum += own.sums[0][w][dim];
      const uint largest = largest_of(own.largest_scaled[0][dim / arith::kBlock]);
      const float output = multiply(arith::to_float(sum), block_scale(largest, arith::kWeightStep));
      hand_on<Model>({0, static_cast<std::uint16_t>(this_split)}, plan.splits,
                     plan.kv_head * Model::kGroup + this_query, this_first + dim, output, own.denominators[0],
                     epoch);
    }
    if (plan.splits > 1 && this_first == 0 && p < 2) {
      publish(statistics_of<Model>({0, static_cast<std::uint16_t>(this_split)},
                                   plan.kv_head * Model::kGroup + this_query) +
                  p,
              p == 0 ? maximum : own.denominators[0], epoch);
    }
    if (last && this_query == 0 && this_first == 0) {
      append<Model>(layer.cache, {0, static_cast<std::uint16_t>(this_split)}, plan.kv_head, seen - 1);
    }
    if (!more) return;
    job = next;
  }
}

template <typename Model>
__device__ __forceinline__ Stream attention(Stream stream, const PersistentLayer& layer, uint epoch) {
  constexpr uint kDim = Model::kHeadDim;
  const Plan& plan = shared().plan;
  const bool streams = plan.streamed > 0;
  if (!streams && plan.member >= plan.head_jobs) allow<Model>(tile_of(stream), shared().burst);
  if (streams) stream = attend_streamed<Model>(stream, layer, epoch);
  if (plan.member < plan.head_jobs) {
    if (plan.part_bits == 0) {
      attend_parts<Model, kDim>(stream, layer, epoch, streams);
    } else if (plan.part_bits == 1) {
      attend_parts<Model, kDim / 2>(stream, layer, epoch, streams);
    } else if (plan.part_bits == 2) {
      attend_parts<Model, kDim / 4>(stream, layer, epoch, streams);
    } else if constexpr (kDim / 8 >= kPartDims) {
      attend_parts<Model, kDim / 8>(stream, layer, epoch, streams);
    }
  }
  if (plan.splits > 1) merge_splits<Model>(plan.splits, epoch);
  return stream;
}

}  // namespace inferno::cuda::persistent
