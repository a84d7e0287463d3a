#pragma once

#include "backend/cuda/module/kernels/persistent_merge.cuh"

/// Attention in the persistent kernel: the jobs of a Plan. A warp has 32 positions of the split, a lane one
/// of them; keys and values are fetched before the query is here. All that is needed of the current position
/// comes from the words of the product before, so nobody waits for the cache to be written.
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
__device__ inline CacheHead<Model::kHeadDim> cache_head(std::byte* cache, uint split, uint kv_head) {
  return {cache + (std::size_t{shared().step.table[split]} * Model::kKvHeads + kv_head) *
                      CacheHead<Model::kHeadDim>::kBytes};
}

/// The query heads of the group, the new key and the new value, a warp each: from words to int8.
template <typename Model>
__device__ __forceinline__ void prepare_heads(const PersistentLayer& layer, uint kv_head, uint position,
                                              uint epoch) {
  constexpr uint kDim = Model::kHeadDim;
  constexpr uint kBlocks = kDim / arith::kBlock;
  constexpr uint kGroup = Model::kGroup;
  auto& own = block_of<Model>().attention;
  const uint lane = thread_index() % kWarp;
#pragma unroll 1
  for (uint role = thread_index() / kWarp; role < kGroup + 2; role += kWarps) {
    const bool query = role < kGroup;
    const bool key = role == kGroup;
    const uint first = query ? (kv_head * kGroup + role) * kDim
                             : (Model::kHeads + (key ? 0 : Model::kKvHeads) + kv_head) * kDim;
    float weight[kBlocks], cosine[kBlocks / 2], sine[kBlocks / 2];
    if (query || key) {
      const float* norm = query ? layer.query_norm : layer.key_norm;
      const float* rope = model().rope + std::size_t{position} * kDim;
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) weight[b] = __ldg(norm + b * kWarp + lane);
#pragma unroll
      for (uint b = 0; b < kBlocks / 2; ++b) {
        cosine[b] = __ldg(rope + b * kWarp + lane);
        sine[b] = __ldg(rope + kDim / 2 + b * kWarp + lane);
      }
    }
    float x[kBlocks];
    const std::uint64_t* words = model().exchange.qkv + first + lane;
    Patience patience(Awaited::heads);
    for (;;) {
      std::uint64_t word[kBlocks];
      bool here = true;
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) word[b] = read_word(words + b * kWarp);
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) {
        here = here && is_of(word[b], epoch);
        x[b] = value_of(word[b]);
      }
      if (here) break;
      patience.lose();
    }
    if (query || key) {
      float sum = 0.0F;
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) sum = add(sum, multiply(x[b], x[b]));
      sum = tree_sum(sum);
      const float factor = arith::reciprocal_sqrt(add(multiply(sum, model().inverse_head), model().epsilon));
#pragma unroll
      for (uint b = 0; b < kBlocks; ++b) x[b] = multiply(multiply(x[b], factor), weight[b]);
#pragma unroll
      for (uint b = 0; b < kBlocks / 2; ++b) {
        const float low = x[b];
        const float high = x[b + kBlocks / 2];
        x[b] = arith::subtract(multiply(low, cosine[b]), multiply(high, sine[b]));
        x[b + kBlocks / 2] = add(multiply(high, cosine[b]), multiply(low, sine[b]));
      }
    }
    // Step by step for all blocks, not block by block: what does not depend on each other overlaps.
    uint largest[kBlocks];
    float inverse[kBlocks];
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) largest[b] = largest_magnitude(x[b]);
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) inverse[b] = block_inverse(largest[b], arith::kInt8Levels);
    std::int8_t* values = query ? own.queries[role] : own.new_rows[key ? 0 : 1];
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b)
      values[b * kWarp + lane] = static_cast<std::int8_t>(arith::quantize(x[b], inverse[b]));
    uint of_lane = largest[0];
#pragma unroll
    for (uint b = 1; b < kBlocks; ++b) of_lane = lane == b ? largest[b] : of_lane;
    float scale = block_scale(of_lane, arith::kInt8Step);
    if (query) scale = multiply(scale, model().softmax_scale);
    if (lane < kBlocks) (query ? own.query_scales[role] : own.new_scales[key ? 0 : 1])[lane] = scale;
  }
}

/// Keys of a warp's 32 positions as its lanes have them: kLanes neighbours share a row, 16 bytes each, and a
/// lane has the scales of its own position, warp * 32 + lane.
template <uint kDim>
struct Keys {
  static constexpr uint kBlocks = kDim / arith::kBlock;
  static constexpr uint kLanes = kDim / 16;
  static constexpr uint kRows = kLanes;          // of a lane
  static constexpr uint kStep = kWarp / kLanes;  // lane's rows: lane / kLanes + i * kStep
  int4 row[kRows];
  float scales[kBlocks];

  /// Of a warp that has positions below `count`; where the others are, the block has room for them.
  __device__ __forceinline__ void load(const CacheHead<kDim>& head, uint count, uint warp, uint lane) {
    if (warp * kWarp >= count) return;
    const std::byte* first = head.key(warp * kWarp) + lane * 16;
#pragma unroll
    for (uint i = 0; i < kRows; ++i) row[i] = __ldcg(reinterpret_cast<const int4*>(first + i * kStep * kDim));
    const float* own = head.key_scales(warp * kWarp + lane);
#pragma unroll
    for (uint b = 0; b < kBlocks; b += 2) {
      const float2 two = __ldcg(reinterpret_cast<const float2*>(own + b));
      scales[b] = two.x;
      scales[b + 1] = two.y;
    }
  }
  /// The current position's key is not in the cache yet.
  template <typename Memory>
  __device__ __forceinline__ void insert(const Memory& own, uint newest, uint warp, uint lane) {
    if (newest / kWarp != warp) return;
#pragma unroll
    for (uint i = 0; i < kRows; ++i) {
      if (warp * kWarp + lane / kLanes + i * kStep == newest)
        row[i] = reinterpret_cast<const int4*>(own.new_rows[0])[lane % kLanes];
    }
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) {
      if (warp * kWarp + lane == newest) scales[b] = own.new_scales[0][b];
    }
  }
  /// The score of the lane's position.
  template <typename Memory>
  __device__ __forceinline__ float score(Memory& own, uint query, uint warp, uint lane) const {
    const int4 chunk = reinterpret_cast<const int4*>(own.queries[query])[lane % kLanes];
    int* dots = own.dots[warp];
#pragma unroll
    for (uint i = 0; i < kRows; ++i) dots[i * kWarp + lane] = dot16(row[i], chunk, 0);
    __syncwarp();
    float sum = 0.0F;
#pragma unroll
    for (uint b = 0; b < kBlocks; b += 2) {
      const int4 four = reinterpret_cast<const int4*>(dots + lane * kLanes)[b / 2];
      const float first = dot_to_float(kDotStart + four.x + four.y);
      const float second = dot_to_float(kDotStart + four.z + four.w);
      sum = add(sum, multiply(multiply(first, scales[b]), own.query_scales[query][b]));
      sum = add(sum, multiply(multiply(second, scales[b + 1]), own.query_scales[query][b + 1]));
    }
    __syncwarp();
    return sum;
  }
};

/// Four dot products of four bytes: each sum grows by signed `values` times unsigned `weights`.
__device__ inline int dot4(uint values, uint weights, int sum) {
  asm("dp4a.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(values), "r"(weights));
  return sum;
}

/// Values of a warp's positions, kDims of their dimensions: kLanes neighbours share a row, 16 bytes each.
template <uint kHeadDim, uint kDims>
struct Values {
  static constexpr uint kLanes = kDims / kPartDims;
  static constexpr uint kRows = kLanes;          // of a lane
  static constexpr uint kStep = kWarp / kLanes;  // lane's rows: lane / kLanes + i * kStep
  int4 row[kRows];

  __device__ __forceinline__ void load(const CacheHead<kHeadDim>& head, uint first, uint count, uint warp,
                                       uint lane) {
    if (warp * kWarp >= count) return;
    const std::byte* mine = head.value(warp * kWarp + lane / kLanes) + first + lane % kLanes * kPartDims;
#pragma unroll
    for (uint i = 0; i < kRows; ++i)
      row[i] = __ldcg(reinterpret_cast<const int4*>(mine + i * kStep * kHeadDim));
  }
  template <typename Memory>
  __device__ __forceinline__ void insert(const Memory& own, uint first, uint newest, uint warp, uint lane) {
    if (newest / kWarp != warp) return;
#pragma unroll
    for (uint i = 0; i < kRows; ++i) {
      if (warp * kWarp + lane / kLanes + i * kStep == newest)
        row[i] = *reinterpret_cast<const int4*>(own.new_rows[1] + first + lane % kLanes * kPartDims);
    }
  }
  /// Where the weight of a warp's position stands, so that a lane's rows are neighbours.
  __device__ static uint place(uint position) { return position % kStep * kRows + position / kStep; }

  /// The lane's rows, weighted: sums [heads][16].
  template <uint kHeads, typename Memory>
  __device__ __forceinline__ void weigh(const Memory& own, uint warp, uint lane,
                                        int (&sums)[kHeads][kPartDims]) const {
    const uint block = lane % kLanes * kPartDims / arith::kBlock;
    if constexpr (kRows >= 4) {
      // Four rows at a time: their bytes of a dimension become a word.
      constexpr uint kFours = kRows / 4;
      uint high[kHeads][kFours], low[kHeads][kFours];
#pragma unroll
      for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
        for (uint f = 0; f < kFours; ++f) {
          const auto& halves = own.rounded[warp][h][block];
          high[h][f] = reinterpret_cast<const uint*>(halves[0])[lane / kLanes * kFours + f];
          low[h][f] = reinterpret_cast<const uint*>(halves[1])[lane / kLanes * kFours + f];
        }
      }
#pragma unroll
      for (uint w = 0; w < 4; ++w) {
        int upper[kHeads][4] = {}, lower[kHeads][4] = {};
#pragma unroll
        for (uint f = 0; f < kFours; ++f) {
          const auto word = [&](uint i) {
            const int4& bytes = row[4 * f + i];
            return static_cast<uint>(w == 0 ? bytes.x : w == 1 ? bytes.y : w == 2 ? bytes.z : bytes.w);
          };
          const uint a = __byte_perm(word(0), word(1), 0x5140);
          const uint b = __byte_perm(word(2), word(3), 0x5140);
          const uint c = __byte_perm(word(0), word(1), 0x7362);
          const uint d = __byte_perm(word(2), word(3), 0x7362);
          const uint values[4] = {__byte_perm(a, b, 0x5410), __byte_perm(a, b, 0x7632),
                                  __byte_perm(c, d, 0x5410), __byte_perm(c, d, 0x7632)};
#pragma unroll
          for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
            for (uint i = 0; i < 4; ++i) {
              upper[h][i] = dot4(values[i], high[h][f], upper[h][i]);
              lower[h][i] = dot4(values[i], low[h][f], lower[h][i]);
            }
          }
        }
#pragma unroll
        for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
          for (uint i = 0; i < 4; ++i) sums[h][4 * w + i] = upper[h][i] * 256 + lower[h][i];
        }
      }
    } else {
#pragma unroll
      for (uint h = 0; h < kHeads; ++h) {
#pragma unroll
        for (uint i = 0; i < kRows; ++i) {
          const auto& halves = own.rounded[warp][h][block];
          const uint place = lane / kLanes * kRows + i;
          const int weight = halves[0][place] * 256 + halves[1][place];
          const int words[4] = {row[i].x, row[i].y, row[i].z, row[i].w};
#pragma unroll
          for (uint d = 0; d < kPartDims; ++d) {
            const int product = weight * (words[d / 4] << (24 - d % 4 * 8) >> 24);
            sums[h][d] = i == 0 ? product : sums[h][d] + product;
          }
        }
      }
    }
  }
  /// Sums over the warp's lanes go to `out` [kDims].
  __device__ __forceinline__ static void add_lanes(int (&sums)[kPartDims], int* out, uint lane) {
    if constexpr (kLanes == 1) {
      int mine = 0;
#pragma unroll
      for (uint d = 0; d < kPartDims; ++d) {
        const int sum = __reduce_add_sync(kAllLanes, sums[d]);
        if (lane == d) mine = sum;
      }
      if (lane < kPartDims) out[lane] = mine;
    } else {
      // Each step halves the dimensions that a lane goes on with, and doubles what its sums are of.
      uint dim = lane % kLanes * kPartDims;
      constexpr uint kLeft = kPartDims * kLanes / kWarp;
      uint step = kWarp / 2;
#pragma unroll
      for (uint count = kPartDims / 2; count >= kLeft; count /= 2) {
        const bool upper = (lane & step) != 0;
        if (upper) dim += count;
#pragma unroll
        for (uint d = 0; d < count; ++d) {
          const int sent = upper ? sums[d] : sums[d + count];
          const int kept = upper ? sums[d + count] : sums[d];
          sums[d] = kept + __shfl_xor_sync(kAllLanes, sent, step);
        }
        step /= 2;
        if (count == 1) break;
      }
#pragma unroll
      for (uint d = 0; d < kLeft; ++d) out[dim + d] = sums[d];
    }
  }
};

/// The largest of what the warps left in `largest`.
__device__ inline uint largest_of(const uint (&largest)[kWarps]) {
  const auto* words = reinterpret_cast<const uint4*>(largest);
  const uint4 a = words[0];
  const uint4 b = words[1];
  return max(max(max(a.x, a.y), max(a.z, a.w)), max(max(b.x, b.y), max(b.z, b.w)));
}

/// The norm warp's part of a job: denominators, 32 partial sums of every 32nd weight and a tree.
template <typename Model>
__device__ inline void sum_weights(uint heads) {
  sync(kSquaresReady, kNormThreads);
  auto& own = block_of<Model>().attention;
  const uint lane = lane_index();
#pragma unroll 1
  for (uint h = 0; h < heads; ++h) {
    float sum = 0.0F;
#pragma unroll
    for (uint i = 0; i < kWarps; ++i) sum = add(sum, own.weights[h][i * kWarp + lane]);
    sum = tree_sum(sum);
    if (lane == 0) own.denominators[h] = sum;
  }
  sync(kSumsReady, kNormThreads);
}

/// One of a job's outputs.
template <typename Model>
__device__ __forceinline__ void hand_on(uint splits, uint split, uint query_head, uint dim, float output,
                                        float denominator, uint epoch) {
  const PersistentExchange& exchange = model().exchange;
  if (splits == 1) {
    // The merge of a single split: its factor is exp(0), which is 1.
    publish(exchange.mixed + word_place(query_head * Model::kHeadDim + dim),
            multiply(output, arith::reciprocal(denominator)), epoch);
  } else {
    publish(exchange.splits + (std::size_t{query_head} * model().max_splits + split) * Model::kHeadDim + dim,
            output, epoch);
  }
}

/// The block's jobs of one kind: kDims dimensions of kHeads query heads (one, or the whole group).
template <typename Model, uint kDims, uint kHeads>
__device__ __forceinline__ void attend_jobs(Stream stream, const PersistentLayer& layer, uint position,
                                            uint epoch) {
  using Own = AttentionMemory<Model::kGroup, Model::kHeadDim>;
  constexpr uint kDim = Model::kHeadDim;
  constexpr uint kScales = (kDims + arith::kBlock - 1) / arith::kBlock;
  constexpr uint kPair = kHeads == 1 ? 1 : Own::kPair;
  Own& own = block_of<Model>().attention;
  const Plan& plan = shared().plan;
  const uint warp = thread_index() / kWarp;
  const uint lane = thread_index() % kWarp;
  const uint p = warp * kWarp + lane;
  Keys<kDim> keys{};
  Values<kDim, kDims> values{};
  float value_scales[kScales] = {};

  constexpr bool kWhole = kHeads > 1;
  const uint jobs = kWhole ? plan.whole_jobs : plan.head_jobs;
  uint split = 0, query = 0, first = 0;
  const auto locate = [&](uint job) {
    if constexpr (kWhole) {
      split = job;
    } else {
      first = (job & ((1U << plan.part_bits) - 1U)) * kDims;
      split = plan.whole_jobs + (job >> plan.part_bits) / Model::kGroup;
      query = (job >> plan.part_bits) % Model::kGroup;
    }
  };
  const auto cached = [&] { return split + 1 == plan.splits ? position % kSplit : kSplit; };
  const auto load_values = [&] {
    const auto head = cache_head<Model>(layer.cache, split, plan.kv_head);
    values.load(head, first, cached(), warp, lane);
    if (warp * kWarp >= cached()) return;
    const float* scales = head.value_scales(p) + first / arith::kBlock;
#pragma unroll
    for (uint b = 0; b < kScales; ++b) value_scales[b] = __ldcg(scales + b);
  };

  locate(plan.member);
  keys.load(cache_head<Model>(layer.cache, split, plan.kv_head), cached(), warp, lane);
  load_values();
  if (kWhole || plan.member >= plan.whole_jobs) {  // the block's first job
    prepare_heads<Model>(layer, plan.kv_head, position, epoch);
    sync(kTermsReady, kThreads);
    allow<Model>(tile_of(stream), shared().burst);
  }
#pragma unroll 1
  for (uint job = plan.member;;) {
    const uint ahead = job + 2 * plan.members;
    if (kWhole && ahead < jobs && thread_index() == kThreads - 1) {
      prefetch(cache_head<Model>(layer.cache, ahead, plan.kv_head).base, CacheHead<kDim>::kBytes);
    }
    const bool last = split + 1 == plan.splits;
    const uint seen = last ? position % kSplit + 1 : kSplit;
    const bool sees = p < seen;
    if (last) {
      keys.insert(own, seen - 1, warp, lane);
      values.insert(own, first, seen - 1, warp, lane);
      if (p == seen - 1) {
#pragma unroll
        for (uint b = 0; b < kScales; ++b) value_scales[b] = own.new_scales[1][first / arith::kBlock + b];
      }
    }
    float scores[kHeads];
#pragma unroll
    for (uint h = 0; h < kHeads; ++h) {
      scores[h] = keys.score(own, query + h, warp, lane);
      const uint largest = __reduce_max_sync(kAllLanes, sees ? ordered(scores[h]) : 0U);
      if (lane == 0) own.largest_score[h][warp] = largest;
    }
    const uint this_split = split;
    const uint this_query = query;
    const uint this_first = first;
    const uint next = job + plan.members;
    const bool more = next < jobs;
    if (more) {
      locate(next);
      keys.load(cache_head<Model>(layer.cache, split, plan.kv_head), cached(), warp, lane);
    }
    sync(kTermsReady, kThreads);
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
          halves[0][Values<kDim, kDims>::place(lane)] = static_cast<std::uint8_t>(weights[h][b] >> 8U);
          halves[1][Values<kDim, kDims>::place(lane)] = static_cast<std::uint8_t>(weights[h][b]);
        }
      }
      __syncwarp();
      int sums[kPair][kPartDims];
      values.template weigh<kPair>(own, warp, lane, sums);
#pragma unroll
      for (uint h = 0; h < kPair; ++h) values.add_lanes(sums[h], own.sums[h][warp], lane);
      if (pair + kPair >= kHeads) {
        if (more) load_values();
        sync(kSumsReady, kNormThreads);
      } else {
        sync(kTermsReady, kThreads);
      }
#pragma unroll 1
      for (uint i = thread_index(); i < kPair * kDims; i += kThreads) {
        const uint h = i / kDims;
        const uint dim = i % kDims;
        int sum = 0;
#pragma unroll
        for (uint w = 0; w < kWarps; ++w) sum += own.sums[h][w][dim];
        const uint largest = largest_of(own.largest_scaled[pair + h][dim / arith::kBlock]);
        const float output = multiply(arith::to_float(sum), block_scale(largest, arith::kWeightStep));
        hand_on<Model>(plan.splits, this_split, plan.kv_head * Model::kGroup + this_query + pair + h,
                       this_first + dim, output, own.denominators[pair + h], epoch);
      }
    }
    if (plan.splits > 1 && this_first == 0 && p < 2 * kHeads) {
      const uint head = plan.kv_head * Model::kGroup + this_query + p / 2;
      float value = own.denominators[p / 2];
#pragma unroll
      for (uint h = 0; h < kHeads; ++h) value = p == 2 * h ? maxima[h] : value;
      publish(model().exchange.statistics + (std::size_t{head} * model().max_splits + this_split) * 2 + p % 2,
              value, epoch);
    }
    if (last && this_query == 0 && this_first == 0) {
      // The new key and value go to the cache, for the steps after this one.
      const auto head = cache_head<Model>(layer.cache, this_split, plan.kv_head);
      const bool key = warp == kWarps - 1;
      if (warp >= kWarps - 2) {
        std::byte* row = key ? head.key(seen - 1) : head.value(seen - 1);
        float* scales = key ? head.key_scales(seen - 1) : head.value_scales(seen - 1);
        const uint which = key ? 0 : 1;
        if (lane < kDim / 4)
          reinterpret_cast<int*>(row)[lane] = reinterpret_cast<const int*>(own.new_rows[which])[lane];
        if (lane < kDim / arith::kBlock) scales[lane] = own.new_scales[which][lane];
      }
    }
    if (!more) return;
    job = next;
  }
}

template <typename Model>
__device__ __forceinline__ void attention(Stream stream, const PersistentLayer& layer, uint position,
                                          uint epoch) {
  constexpr uint kDim = Model::kHeadDim;
  const Plan& plan = shared().plan;
  if (plan.member >= plan.whole_jobs && plan.member >= plan.head_jobs) {
    allow<Model>(tile_of(stream), shared().burst);
  }
  if (plan.member < plan.whole_jobs) {
    attend_jobs<Model, kDim, Model::kGroup>(stream, layer, position, epoch);
  }
  if (plan.member < plan.head_jobs) {
    if (plan.part_bits == 0) {
      attend_jobs<Model, kDim, 1>(stream, layer, position, epoch);
    } else if (plan.part_bits == 1) {
      attend_jobs<Model, kDim / 2, 1>(stream, layer, position, epoch);
    } else if (plan.part_bits == 2) {
      attend_jobs<Model, kDim / 4, 1>(stream, layer, position, epoch);
    } else if constexpr (kDim / 8 >= kPartDims) {
      attend_jobs<Model, kDim / 8, 1>(stream, layer, position, epoch);
    }
  }
  if (plan.splits > 1) merge_splits<Model>(plan.splits, epoch);
}

}  // namespace inferno::cuda::persistent
