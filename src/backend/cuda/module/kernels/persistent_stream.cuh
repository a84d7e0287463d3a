#pragma once

#include "backend/cuda/module/kernels/persistent_heads.cuh"
#include "backend/cuda/module/kernels/persistent_merge.cuh"

/// Attention to whole splits, for all query heads of a KV head, whose cache comes through the ring like the
/// weights. What the kernels of one and of several rows share.
namespace inferno::cuda::persistent {

/// Where a split's outputs of a query head are handed on.
template <typename Model>
__device__ inline std::uint64_t* outputs_of(const Job& job, uint query_head) {
  if constexpr (Model::kRows > 1) {
    const uint entry = shared().step.table_offsets[job.row] + job.split;
    return model().exchange.splits + (std::size_t{entry} * Model::kHeads + query_head) * Model::kHeadDim;
  } else {
    return model().exchange.splits +
           (std::size_t{query_head} * model().max_splits + job.split) * Model::kHeadDim;
  }
}
/// And its maximum and denominator.
template <typename Model>
__device__ inline std::uint64_t* statistics_of(const Job& job, uint query_head) {
  if constexpr (Model::kRows > 1) {
    const uint entry = shared().step.table_offsets[job.row] + job.split;
    return model().exchange.statistics + (std::size_t{entry} * Model::kHeads + query_head) * 2;
  } else {
    return model().exchange.statistics + (std::size_t{query_head} * model().max_splits + job.split) * 2;
  }
}

/// A vector of several rows that is handed on in int8: words of four and their epoch, and scales.
struct QuantWords {
  std::uint64_t* words;   // [columns / 32][R][8]
  std::uint64_t* scales;  // [columns / 32][R]
};
__device__ inline QuantWords mixed_words() {
  return {model().exchange.mixed, model().exchange.mixed_scales};
}

/// Hands on a block of 32 of a row, one value in each lane.
__device__ inline void publish_quants(const QuantWords& to, uint row, uint block, float value, uint epoch) {
  const uint lane = lane_index();
  const uint largest = largest_magnitude(value);
  const uint quant =
      static_cast<uint>(arith::quantize(value, block_inverse(largest, arith::kInt8Levels))) & 0xFFU;
  uint word = quant << (lane % 4 * 8);
  word |= __shfl_xor_sync(kAllLanes, word, 1);
  word |= __shfl_xor_sync(kAllLanes, word, 2);
  const std::size_t place = std::size_t{block} * kMostPersistentRows + row;
  // Words 0 to 3 are the first of the four pairs that a product's lanes read, 4 to 7 the second.
  const uint index = lane / 4 % 4 * 2 + lane / 16;
  if (lane % 4 == 0) publish(to.words + place * 8 + index, __uint_as_float(word), epoch);
  if (lane == 0) publish(to.scales + place, block_scale(largest, arith::kInt8Step), epoch);
}

/// One of a job's outputs. With several rows the warp's lanes have a block of 32 dimensions.
template <typename Model>
__device__ __forceinline__ void hand_on(const Job& job, uint splits, uint query_head, uint dim, float output,
                                        float denominator, uint epoch) {
  if (splits > 1) return publish(outputs_of<Model>(job, query_head) + dim, output, epoch);
  // The merge of a single split: its factor is exp(0), which is 1.
  const float value = multiply(output, arith::reciprocal(denominator));
  const uint column = query_head * Model::kHeadDim + dim;
  if constexpr (Model::kRows > 1) {
    publish_quants(mixed_words(), job.row, column / arith::kBlock, value, epoch);
  } else {
    publish(model().exchange.mixed + word_place(column), value, epoch);
  }
}

/// The new key and value go to the cache, for the steps after this one. Two warps do it.
template <typename Model>
__device__ __forceinline__ void append(std::byte* cache, const Job& job, uint kv_head, uint place) {
  constexpr uint kDim = Model::kHeadDim;
  const auto& own = block_of<Model>().attention;
  const uint warp = thread_index() / kWarp;
  const uint lane = thread_index() % kWarp;
  if (warp < kWarps - 2) return;
  const auto head = cache_head<Model>(cache, job, kv_head);
  const bool key = warp == kWarps - 1;
  std::byte* row = key ? head.key(place) : head.value(place);
  float* scales = key ? head.key_scales(place) : head.value_scales(place);
  const uint which = key ? 0 : 1;
  if (lane < kDim / 4)
    reinterpret_cast<int*>(row)[lane] = reinterpret_cast<const int*>(own.new_rows[which])[lane];
  if (lane < kDim / arith::kBlock) scales[lane] = own.new_scales[which][lane];
}

/// The block's splits. Returns where the stream stands then.
template <typename Model>
__device__ __forceinline__ Stream attend_streamed(Stream stream, const PersistentLayer& layer, uint epoch) {
  using Own = AttentionMemory<Model::kGroup, Model::kHeadDim>;
  constexpr uint kDim = Model::kHeadDim;
  using Tiles = CacheTiles<kDim>;
  constexpr uint kScales = kDim / arith::kBlock;
  constexpr uint kHeads = Model::kGroup;
  constexpr uint kPair = Own::kPair;
  Block<Model>& block = block_of<Model>();
  Own& own = block.attention;
  const uint kv_head = block.plan.kv_head;
  const uint warp = thread_index() / kWarp;
  const uint lane = thread_index() % kWarp;
  const uint p = warp * kWarp + lane;
  const uint warp_tile = warp * kWarp / Tiles::kPositions;
  const auto tile_bytes = [&](uint tile) { return block.ring() + tile % Model::kSlots * kTileBytes; };
  uint tile = tile_of(stream);
  uint prepared = kMostPersistentRows;

#pragma unroll 1
  for (uint j = 0; j < block.plan.streamed; ++j) {
    const Job job = block.jobs[j];
    const bool last = is_last(job);
    const uint cached = cached_of(job);
    const uint seen = last ? cached + 1 : kSplit;
    const uint splits = block.position[job.row] / kSplit + 1;
    const bool sees = p < seen;
    const bool in_cache = warp * kWarp < cached;
    if (job.row != prepared) {
      if (j > 0) sync(kTermsReady, kThreads);  // the heads of the job before have been read
      prepare_heads<Model>(layer, kv_head, job.row, epoch);
      sync(kTermsReady, kThreads);
      prepared = job.row;
      if (j == 0) allow<Model>(tile, Model::kSlots);
    }
    const uint first_value = tile + (cached == 0 ? 0 : 1 + Tiles::of_part(cached));
    if (in_cache) {
      wait_tile<Model>(tile);
      wait_tile<Model>(tile + 1 + warp_tile);
    }
    const uint inside = warp * kWarp % Tiles::kPositions * kDim;
    Keys<kDim> keys;
    keys.load_tile(tile_bytes(tile + 1 + warp_tile) + inside,
                   tile_bytes(tile) + warp * kWarp * kScales * sizeof(float), lane);
    float value_scales[kScales];
    {
      const auto* scales =
          reinterpret_cast<const float2*>(tile_bytes(tile) + Tiles::kScaleBytes) + p * (kScales / 2);
#pragma unroll
      for (uint b = 0; b < kScales; b += 2) {
        value_scales[b] = scales[b / 2].x;
        value_scales[b + 1] = scales[b / 2].y;
      }
    }
    if (last) {
      keys.insert(own, seen - 1, warp, lane);
#pragma unroll
      for (uint b = 0; b < kScales; ++b) {
        const float newest = own.new_scales[1][b];
        value_scales[b] = p == seen - 1 ? newest : value_scales[b];
      }
    }
    float scores[kHeads];
#pragma unroll
    for (uint h = 0; h < kHeads; ++h) {
      scores[h] = keys.score(own, h, warp, lane);
      const uint largest = __reduce_max_sync(kAllLanes, sees ? ordered(scores[h]) : 0U);
      if (lane == 0) own.largest_score[h][warp] = largest;
    }
    sync(kTermsReady, kThreads);
    allow<Model>(first_value, Model::kSlots);
    if (in_cache) wait_tile<Model>(first_value + warp_tile);
    Values<kDim, kDim> values;
    values.load_tile(tile_bytes(first_value + warp_tile) + inside, lane);
    if (last) values.insert(own, 0, seen - 1, warp, lane);
    // Step by step for all heads and blocks, not one by one: what does not depend on each other overlaps.
    float maxima[kHeads];
#pragma unroll
    for (uint h = 0; h < kHeads; ++h) maxima[h] = from_ordered(largest_of(own.largest_score[h]));
#pragma unroll
    for (uint h = 0; h < kHeads; ++h) {
      float weight = arith::exponential(arith::subtract(scores[h], maxima[h]));
      asm("" : "+f"(weight));
      scores[h] = sees ? weight : 0.0F;
    }
    uint largest_scaled[kHeads][kScales];
#pragma unroll
    for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
      for (uint b = 0; b < kScales; ++b)
        largest_scaled[h][b] = largest_magnitude(sees ? multiply(scores[h], value_scales[b]) : 0.0F);
    }
#pragma unroll
    for (uint h = 0; h < kHeads; ++h) {
      own.weights[h][p] = scores[h];
#pragma unroll
      for (uint b = 0; b < kScales; ++b) {
        if (lane == 0) own.largest_scaled[h][b][warp] = largest_scaled[h][b];
      }
    }
    arrive(kSquaresReady, kNormThreads);
    sync(kTermsReady, kThreads);
#pragma unroll
    for (uint pair = 0; pair < kHeads; pair += kPair) {
      if (pair > 0) sync(kTermsReady, kThreads);  // the sums of the pair before have been read
      // Each lane has the inverse of one (head, block), and hands it to the others.
      constexpr uint kInverses = kPair * kScales;
      const uint mine = lane % kInverses;
      const float inverse = block_inverse(
          largest_of(own.largest_scaled[pair + mine / kScales][mine % kScales]), arith::kWeightLevels);
      uint weights[kPair][kScales];
#pragma unroll
      for (uint h = 0; h < kPair; ++h) {
#pragma unroll
        for (uint b = 0; b < kScales; ++b) {
          const float scaled = sees ? multiply(scores[pair + h], value_scales[b]) : 0.0F;
          weights[h][b] =
              static_cast<uint>(arith::quantize(scaled, __shfl_sync(kAllLanes, inverse, h * kScales + b)));
        }
      }
#pragma unroll
      for (uint h = 0; h < kPair; ++h) {
#pragma unroll
        for (uint b = 0; b < kScales; ++b) {
          auto& halves = own.rounded[warp][h][b];
          halves[0][Values<kDim, kDim>::place(lane)] = static_cast<std::uint8_t>(weights[h][b] >> 8U);
          halves[1][Values<kDim, kDim>::place(lane)] = static_cast<std::uint8_t>(weights[h][b]);
        }
      }
      __syncwarp();
      int sums[kPair][kPartDims];
      values.template weigh<kPair>(own, warp, lane, sums);
#pragma unroll
      for (uint h = 0; h < kPair; ++h) values.add_lanes(sums[h], own.sums[h][warp], lane);
      if (pair + kPair >= kHeads) {
        sync(kSumsReady, kNormThreads);
      } else {
        sync(kTermsReady, kThreads);
      }
#pragma unroll 1
      for (uint i = thread_index(); i < kPair * kDim; i += kThreads) {
        const uint h = i / kDim;
        const uint dim = i % kDim;
        int sum = 0;
#pragma unroll
        for (uint w = 0; w < kWarps; ++w) sum += own.sums[h][w][dim];
        const uint largest = largest_of(own.largest_scaled[pair + h][dim / arith::kBlock]);
        const float output = multiply(arith::to_float(sum), block_scale(largest, arith::kWeightStep));
        hand_on<Model>(job, splits, kv_head * Model::kGroup + pair + h, dim, output,
                       own.denominators[pair + h], epoch);
      }
    }
    tile += Tiles::count(cached);
    allow<Model>(tile, Model::kSlots);
    if (splits > 1 && p < 2 * kHeads) {
      float value = own.denominators[p / 2];
#pragma unroll
      for (uint h = 0; h < kHeads; ++h) value = p == 2 * h ? maxima[h] : value;
      publish(statistics_of<Model>(job, kv_head * Model::kGroup + p / 2) + p % 2, value, epoch);
    }
    if (last && (block.running >> job.row & 1U) != 0) append<Model>(layer.cache, job, kv_head, seen - 1);
  }
  return 2 * tile + stream % 2;
}

}  // namespace inferno::cuda::persistent
