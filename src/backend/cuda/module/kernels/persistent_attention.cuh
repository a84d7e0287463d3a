#pragma once

#include "backend/cuda/module/kernels/persistent_products.cuh"

/// Attention in the persistent kernel. The blocks are shared out among the KV heads; those of a KV head share
/// its jobs: (split of 256 positions, query head, part of the head's dimensions), as many parts as there are
/// blocks for. Thread t has position t of the split. All that is needed of the current position comes from
/// the words of the product before, so nobody waits for the cache to be written.
namespace inferno::cuda::persistent {

constexpr uint kSplit = arith::kSplit;
constexpr uint kPartDims = 16;  // of the smallest part: one 16-byte load of a value row

/// What a layer's warps need of its pointers, loaded a layer ahead.
struct LayerPointers {
  const float* attention_norm;
  const float* ffn_norm;
  const float* query_norm;
  const float* key_norm;
  std::byte* cache;

  __device__ explicit LayerPointers(const PersistentLayer& layer)
      : attention_norm(layer.attention_norm),
        ffn_norm(layer.ffn_norm),
        query_norm(layer.query_norm),
        key_norm(layer.key_norm),
        cache(layer.cache) {}
};

/// Who attends to what.
struct Jobs {
  uint group;  // query heads of a KV head
  uint kv_head, member, members;
  uint splits, parts, count;

  __device__ Jobs(uint position) {
    group = model().heads / model().kv_heads;
    members = gridDim.x / model().kv_heads;
    kv_head = blockIdx.x / members;
    member = blockIdx.x % members;
    splits = position / kSplit + 1;
    parts = model().head_dim / kPartDims;
    while (parts > 1 && splits * group * parts > members) parts /= 2;
    count = kv_head < model().kv_heads ? splits * group * parts : 0;
  }
  __device__ bool works() const { return member < count; }
  /// Jobs of this block.
  __device__ uint mine() const { return works() ? (count - member + members - 1) / members : 0; }
};

/// One KV head of a cache block, in cpu::BlockLayout's order.
struct CacheHead {
  const std::byte* base;
  uint head_dim;

  __device__ const std::byte* key(uint p) const { return base + p * head_dim; }
  __device__ const float* key_scales(uint p) const {
    return reinterpret_cast<const float*>(base + kSplit * head_dim) + p * (head_dim / arith::kBlock);
  }
  __device__ const std::byte* values() const {
    return base + kSplit * (head_dim + head_dim / arith::kBlock * sizeof(float));
  }
  __device__ const std::byte* value(uint p) const { return values() + p * head_dim; }
  __device__ const float* value_scales(uint p) const {
    return reinterpret_cast<const float*>(values() + kSplit * head_dim) + p * (head_dim / arith::kBlock);
  }
};

__device__ inline CacheHead cache_head(const std::byte* cache, uint split, uint kv_head) {
  const std::size_t bytes =
      2 * kSplit * (model().head_dim + model().head_dim / arith::kBlock * sizeof(float));
  return {cache + (std::size_t{shared().step.table[split]} * model().kv_heads + kv_head) * bytes,
          model().head_dim};
}

/// Warp 0.. prepare the query heads of the group, the next the new key, the next the new value: from words to
/// int8.
template <uint kBlocks>
__device__ void prepare_heads(const float* query_norm, const float* key_norm, const Jobs& jobs, uint position,
                              uint epoch) {
  const uint warp = thread_index() / kWarp;
  const uint lane = thread_index() % kWarp;
  if (warp >= jobs.group + 2) return;
  constexpr uint kDim = kBlocks * arith::kBlock;
  const bool query = warp < jobs.group;
  const bool key = warp == jobs.group;
  const uint first = query ? (jobs.kv_head * jobs.group + warp) * kDim
                           : (model().heads + (key ? 0 : model().kv_heads) + jobs.kv_head) * kDim;
  float weight[kBlocks], cosine[kBlocks / 2], sine[kBlocks / 2];
  if (query || key) {
    const float* norm = query ? query_norm : key_norm;
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
  std::int8_t* values = query ? shared().queries[warp] : shared().new_rows[key ? 0 : 1];
  float* scales = query ? shared().query_scales[warp] : shared().new_scales[key ? 0 : 1];
#pragma unroll
  for (uint b = 0; b < kBlocks; ++b) {
    const uint largest = largest_magnitude(x[b]);
    const float inverse = arith::block_inverse(largest, arith::kInt8Levels);
    values[b * kWarp + lane] = static_cast<std::int8_t>(arith::quantize(x[b], inverse));
    float scale = arith::block_scale(largest, arith::kInt8Step);
    if (query) scale = multiply(scale, model().softmax_scale);
    if (lane == 0) scales[b] = scale;
  }
}

/// Keys of one split as the threads have them: kBlocks neighbours share a position.
template <uint kBlocks>
struct Keys {
  int4 low[kBlocks], high[kBlocks];
  float scale[kBlocks];

  /// Positions below `count`; the rest is left alone.
  __device__ void load(const CacheHead& head, uint count) {
    const uint thread = thread_index();
    const uint block = thread % kBlocks;
#pragma unroll
    for (uint i = 0; i < kBlocks; ++i) {
      const uint p = i * (kSplit / kBlocks) + thread / kBlocks;
      if (p >= count) continue;
      const auto* row = reinterpret_cast<const int4*>(head.key(p) + block * arith::kBlock);
      low[i] = __ldcg(row);
      high[i] = __ldcg(row + 1);
      scale[i] = __ldcg(head.key_scales(p) + block);
    }
  }
};

/// One thread of each position writes its score.
template <uint kBlocks>
__device__ void write_scores(const Keys<kBlocks>& keys, uint query, uint seen, uint newest) {
  const uint thread = thread_index();
  const uint lane = thread % kWarp;
  const uint block = thread % kBlocks;
  const auto* words = reinterpret_cast<const int4*>(shared().queries[query] + block * arith::kBlock);
  const int4 low = words[0];
  const int4 high = words[1];
  const float query_scale = shared().query_scales[query][block];
  const auto* new_words = reinterpret_cast<const int4*>(shared().new_rows[0] + block * arith::kBlock);
#pragma unroll
  for (uint i = 0; i < kBlocks; ++i) {
    const uint p = i * (kSplit / kBlocks) + thread / kBlocks;
    int4 key_low = keys.low[i];
    int4 key_high = keys.high[i];
    float scale = keys.scale[i];
    if (p == newest) {
      key_low = new_words[0];
      key_high = new_words[1];
      scale = shared().new_scales[0][block];
    }
    const int dot = dot16(key_high, high, dot16(key_low, low, kDotStart));
    const float term = multiply(multiply(dot_to_float(dot), scale), query_scale);
    float score = 0.0F;
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) {
      score = add(score, __shfl_sync(kAllLanes, term, lane / kBlocks * kBlocks + b));
    }
    if (block == 0 && p < seen) shared().scores[p] = score;
  }
}

/// An integer that orders like the float, NaN above everything.
__device__ inline uint ordered(float value) {
  const uint bits = __float_as_uint(value);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
__device__ inline float from_ordered(uint key) {
  return __uint_as_float((key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key);
}

/// The largest of what the warps left in `largest`.
__device__ inline uint largest_of(const uint (&largest)[kWarps]) {
  uint all = largest[0];
#pragma unroll
  for (uint w = 1; w < kWarps; ++w) all = max(all, largest[w]);
  return all;
}

/// The norm warp's part of a job: the denominator, 32 partial sums of every 32nd weight and a tree.
__device__ inline void sum_weights() {
  sync(kSquaresReady, kNormThreads);
  float sum = 0.0F;
#pragma unroll
  for (uint i = 0; i < kWarps; ++i) sum = add(sum, shared().scores[i * kWarp + thread_index() % kWarp]);
  sum = tree_sum(sum);
  if (thread_index() % kWarp == 0) shared().factor = sum;
  __threadfence_block();
  arrive(kFactorReady, kNormThreads);
}

/// 16 dimensions of the new position's or a cached value row.
__device__ inline int4 value_words(const CacheHead& head, uint p, uint newest, uint dim) {
  if (p == newest) return *reinterpret_cast<const int4*>(shared().new_rows[1] + dim);
  return __ldcg(reinterpret_cast<const int4*>(head.value(p) + dim));
}

/// From scores to the output of dimensions [first, first + dims) of one query head over one split.
template <uint kBlocks>
__device__ void attend_job(const Jobs& jobs, const CacheHead& head, uint split, uint query, uint first,
                           uint dims, uint seen, uint newest, uint epoch) {
  const uint warp = thread_index() / kWarp;
  const uint lane = thread_index() % kWarp;
  const uint p = thread_index();
  const bool sees = p < seen;
  const uint first_block = first / arith::kBlock;
  const uint blocks = (dims + arith::kBlock - 1) / arith::kBlock;
  float value_scales[kBlocks];
  int4 values{};
#pragma unroll
  for (uint b = 0; b < kBlocks; ++b) {
    value_scales[b] = 0.0F;
    if (b >= blocks || !sees) continue;
    value_scales[b] = p == newest ? shared().new_scales[1][first_block + b]
                                  : __ldcg(head.value_scales(p) + first_block + b);
  }
  if (sees) values = value_words(head, p, newest, first);

  const float score = sees ? shared().scores[p] : 0.0F;
  const uint warp_largest = __reduce_max_sync(kAllLanes, sees ? ordered(score) : 0U);
  if (lane == 0) shared().largest[0][warp] = warp_largest;
  sync(kTermsReady, kThreads);
  const float maximum = from_ordered(largest_of(shared().largest[0]));
  const float weight = sees ? arith::exponential(arith::subtract(score, maximum)) : 0.0F;
  shared().scores[p] = weight;
#pragma unroll
  for (uint b = 0; b < kBlocks; ++b) {
    if (b >= blocks) continue;
    const float scaled = sees ? multiply(weight, value_scales[b]) : 0.0F;
    shared().scaled[b][p] = scaled;
    const uint largest = largest_magnitude(scaled);
    if (lane == 0) shared().largest[1 + b][warp] = largest;
  }
  arrive(kSquaresReady, kNormThreads);
  sync(kTermsReady, kThreads);

  // Not unrolled: all pieces at once would not fit the registers.
#pragma unroll 1
  for (uint dim = 0; dim < dims; dim += kPartDims) {
    const int words[4] = {values.x, values.y, values.z, values.w};
    if (dim + kPartDims < dims && sees) values = value_words(head, p, newest, first + dim + kPartDims);
    const uint b = dim / arith::kBlock;
    const uint largest = largest_of(shared().largest[1 + b]);
    const int rounded =
        arith::quantize(shared().scaled[b][p], arith::block_inverse(largest, arith::kWeightLevels));
    int mine = 0;  // lane d keeps the sum of dimension d
#pragma unroll
    for (uint d = 0; d < kPartDims; ++d) {
      const int value = words[d / 4] << (24 - d % 4 * 8) >> 24;
      const int sum = __reduce_add_sync(kAllLanes, rounded * value);
      if (lane == d) mine = sum;
    }
    if (lane < kPartDims) shared().sums[warp][dim + lane] = mine;
  }
  sync(kTermsReady, kThreads);
  sync(kFactorReady, kNormThreads);
  const uint query_head = jobs.kv_head * jobs.group + query;
  if (p < dims) {
    int sum = 0;
#pragma unroll
    for (uint w = 0; w < kWarps; ++w) sum += shared().sums[w][p];
    const uint largest = largest_of(shared().largest[1 + p / arith::kBlock]);
    const float output = multiply(arith::to_float(sum), arith::block_scale(largest, arith::kWeightStep));
    const uint dim = first + p;
    if (jobs.splits == 1) {
      // The merge of a single split: its factor is exp(0), which is 1.
      publish(model().exchange.mixed + query_head * model().head_dim + dim,
              multiply(output, arith::reciprocal(shared().factor)), epoch);
    } else {
      publish(model().exchange.splits +
                  (std::size_t{query_head} * model().max_splits + split) * model().head_dim + dim,
              output, epoch);
    }
  }
  if (jobs.splits > 1 && first == 0 && p < 2) {
    publish(model().exchange.statistics + (std::size_t{query_head} * model().max_splits + split) * 2 + p,
            p == 0 ? maximum : shared().factor, epoch);
  }
}

/// Splits in ascending order, 16 dimensions of a query head at a time. `scratch`: max_splits * 18 floats.
__device__ inline void merge_splits(uint splits, uint epoch, float* scratch) {
  const uint lane = thread_index() % kWarp;
  float* outputs = scratch;                       // [splits][16]
  float* factors = scratch + splits * kPartDims;  // [splits]
  float* denominators = factors + splits;         // [splits]
  const uint pieces = model().heads * model().head_dim / kPartDims;
  for (uint piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const uint head = piece * kPartDims / model().head_dim;
    const uint dim = piece * kPartDims % model().head_dim;
    const std::size_t first = std::size_t{head} * model().max_splits;
    for (uint i = thread_index(); i < splits * 2; i += kThreads) {
      const float value = await(model().exchange.statistics + first * 2 + i, epoch);
      (i % 2 == 0 ? factors : denominators)[i / 2] = value;
    }
    for (uint i = thread_index(); i < splits * kPartDims; i += kThreads) {
      outputs[i] = await(
          model().exchange.splits + (first + i / kPartDims) * model().head_dim + dim + i % kPartDims, epoch);
    }
    sync(kTermsReady, kThreads);
    uint largest = 0;
    for (uint s = lane; s < splits; s += kWarp) largest = max(largest, ordered(factors[s]));
    const float maximum = from_ordered(__reduce_max_sync(kAllLanes, largest));
    sync(kTermsReady, kThreads);
    for (uint s = thread_index(); s < splits; s += kThreads) {
      factors[s] = arith::exponential(arith::subtract(factors[s], maximum));
    }
    sync(kTermsReady, kThreads);
    if (thread_index() < kPartDims) {
      float sum = 0.0F;
      float denominator = 0.0F;
#pragma unroll 4
      for (uint s = 0; s < splits; ++s) {
        denominator = add(denominator, multiply(factors[s], denominators[s]));
        sum = add(sum, multiply(factors[s], outputs[s * kPartDims + thread_index()]));
      }
      publish(model().exchange.mixed + piece * kPartDims + thread_index(),
              multiply(sum, arith::reciprocal(denominator)), epoch);
    }
    sync(kTermsReady, kThreads);
  }
}

/// A warp writes one row of int8 and its scales.
template <uint kBlocks>
__device__ inline void write_row(std::byte* row, float* scales, const std::int8_t* values,
                                 const float* value_scales) {
  const uint lane = thread_index() % kWarp;
  if (lane < kBlocks * arith::kBlock / 4) {
    reinterpret_cast<int*>(row)[lane] = reinterpret_cast<const int*>(values)[lane];
  }
  if (lane < kBlocks) scales[lane] = value_scales[lane];
}

/// The new key and value go to the cache, for the steps after this one.
template <uint kBlocks>
__device__ inline void append(std::byte* cache, const Jobs& jobs, uint position) {
  const uint p = position % kSplit;
  const CacheHead head = cache_head(cache, position / kSplit, jobs.kv_head);
  const uint warp = thread_index() / kWarp;
  if (warp == kWarps - 1) {
    write_row<kBlocks>(const_cast<std::byte*>(head.key(p)), const_cast<float*>(head.key_scales(p)),
                       shared().new_rows[0], shared().new_scales[0]);
  } else if (warp == kWarps - 2) {
    write_row<kBlocks>(const_cast<std::byte*>(head.value(p)), const_cast<float*>(head.value_scales(p)),
                       shared().new_rows[1], shared().new_scales[1]);
  }
}

template <uint kBlocks>
__device__ __forceinline__ void attention(Stream stream, const float* query_norm, const float* key_norm,
                                          std::byte* cache, uint position, uint epoch) {
  const Jobs jobs(position);
  const uint per_split = jobs.group * jobs.parts;
  const uint dims = model().head_dim / jobs.parts;
  bool prepared = false;
  for (uint job = jobs.member; job < jobs.count; job += jobs.members) {
    const uint split = job / per_split;
    const uint query = job % per_split / jobs.parts;
    const uint first = job % jobs.parts * dims;
    const uint begin = split * kSplit;
    const bool last = split + 1 == jobs.splits;
    const uint seen = last ? position + 1 - begin : kSplit;
    const uint newest = last ? position - begin : kSplit;  // kSplit: not in this split
    const CacheHead head = cache_head(cache, split, jobs.kv_head);
    Keys<kBlocks> keys;
    keys.load(head, last ? newest : kSplit);
    if (!prepared) {
      prepare_heads<kBlocks>(query_norm, key_norm, jobs, position, epoch);
      sync(kTermsReady, kThreads);
      allow(tile_of(stream), shared().burst);
      prepared = true;
    }
    write_scores<kBlocks>(keys, query, seen, newest);
    sync(kTermsReady, kThreads);
    attend_job<kBlocks>(jobs, head, split, query, first, dims, seen, newest, epoch);
    if (last && query == 0 && first == 0) append<kBlocks>(cache, jobs, position);
    if (job + jobs.members < jobs.count) sync(kTermsReady, kThreads);
  }
  if (!prepared) allow(tile_of(stream), shared().burst);
  if (jobs.splits > 1) {
    sync(kTermsReady, kThreads);
    merge_splits(jobs.splits, epoch, terms_buffer(0));
  }
}

}  // namespace inferno::cuda::persistent
