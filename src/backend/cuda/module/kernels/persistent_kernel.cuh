#pragma once

#include "backend/cuda/module/kernels/persistent_attention.cuh"
#include "backend/cuda/module/kernels/persistent_choice.cuh"
#include "backend/cuda/module/kernels/persistent_fetch.cuh"
#include "backend/cuda/module/kernels/persistent_products.cuh"
#include "backend/cuda/module/persistent_plan.hpp"

/// Whole decode steps of one row in one cooperative launch. docs/cuda.md describes the design and what it
/// costs.
namespace inferno::cuda::persistent {

/// A model's shape: hidden size, feed-forward size, query heads, KV heads, head size; and slots of the ring.
template <uint kHiddenOf, uint kFfnOf, uint kHeadsOf, uint kKvHeadsOf, uint kHeadDimOf,
          uint kSlotsOf = kMostSlots>
struct Shape {
  static constexpr uint kRows = 1;
  static constexpr uint kGateUnit = 1;
  static constexpr uint kSlots = kSlotsOf;
  static constexpr uint kHidden = kHiddenOf, kFfn = kFfnOf, kHeads = kHeadsOf, kKvHeads = kKvHeadsOf,
                        kHeadDim = kHeadDimOf, kGroup = kHeads / kKvHeads, kMixed = kHeads * kHeadDim,
                        kQkvRows = kMixed + 2 * kKvHeads * kHeadDim;
  using Qkv = Matrix<kHidden, kQkvRows, false, kSlots>;
  using Output = Matrix<kMixed, kHidden, false, kSlots>;
  using GateUp = Matrix<kHidden, kFfn, true, kSlots>;
  using Down = Matrix<kFfn, kHidden, false, kSlots>;
  using Head = Matrix<kHidden, 0, false, kSlots>;
  static constexpr uint kMostRounds =
      most(Qkv::kChunk * Qkv::kChunks, most(Output::kChunk* Output::kChunks, Down::kChunk* Down::kChunks));
  static constexpr uint kTermFloats =
      most(most(Qkv::kTermFloats, Head::kTermFloats),
           most(Output::kTermFloats, most(GateUp::kTermFloats, Down::kTermFloats)));
  /// Enough for half as many blocks as usual.
  static constexpr uint kMostOwnRows =
      2 * gpu::kPanel * ((kHidden / gpu::kPanel + kUsualBlocks - 1) / kUsualBlocks);
};

/// Who attends to what at this position, written by one thread before the step begins.
template <typename Model>
__device__ void plan_attention(Plan& plan, uint position) {
  plan.members = gridDim.x / Model::kKvHeads;
  plan.kv_head = blockIdx.x / plan.members;
  plan.member = blockIdx.x % plan.members;
  plan.splits = position / kSplit + 1;
  plan.whole_jobs = 0;
  if (Model::kGroup > 1 && plan.splits * Model::kGroup > plan.members) {
    const uint rest = plan.splits % plan.members;
    plan.whole_jobs = rest * Model::kGroup > plan.members ? plan.splits : plan.splits - rest;
  }
  const uint heads = (plan.splits - plan.whole_jobs) * Model::kGroup;
  plan.part_bits = 0;
  while ((kPartDims << plan.part_bits) < Model::kHeadDim && (heads << (plan.part_bits + 1)) <= plan.members) {
    ++plan.part_bits;
  }
  plan.head_jobs = heads << plan.part_bits;
  if (plan.kv_head >= Model::kKvHeads) plan.whole_jobs = plan.head_jobs = 0;
  plan.streamed = 0;
  for (uint split = plan.member; split < plan.whole_jobs; split += plan.members)
    shared().jobs[plan.streamed++] = {0, static_cast<std::uint16_t>(split)};
}

/// Norms of a step are numbered: what the norm warp gives is tagged with the number that it is for.
__device__ inline uint attention_norm_tag(uint epoch) {
  return 2 * epoch;
}
__device__ inline uint ffn_norm_tag(uint epoch) {
  return 2 * epoch + 1;
}

/// 1 / rms of the vector in shared memory, by the norm warp.
template <typename Model>
__device__ __forceinline__ void square_sum(uint tag) {
  Block<Model>& block = block_of<Model>();
  sync(kSquaresReady, kNormThreads);
  const uint lane = lane_index();
  float sum = 0.0F;
#pragma unroll 32
  for (uint i = 0; i < Model::kHidden; i += kWarp) {
    const float x = block.vector[i + lane];
    sum = add(sum, multiply(x, x));
  }
  sum = tree_sum(sum);
  const float factor = arith::reciprocal_sqrt(add(multiply(sum, model().inverse_hidden), model().epsilon));
  if (lane == 0) block.factor = static_cast<std::uint64_t>(tag) << 32U | __float_as_uint(factor);
}

/// What the norm warp does, in the order in which the others ask for it.
template <typename Model>
__device__ __noinline__ void assist() {
  const Shared& block = shared();
  uint epoch = block.step.epoch;
  do {
    const uint whole_jobs = block.plan.streamed;
    const uint head_jobs = block.plan.mine(block.plan.head_jobs);
#pragma unroll 1
    for (uint l = 0; l < model().layers; ++l, ++epoch) {
      if (block.qkv.panels > 0) square_sum<Model>(attention_norm_tag(epoch));
      for (uint job = 0; job < whole_jobs + head_jobs; ++job)
        sum_weights<Model>(job < whole_jobs ? Model::kGroup : 1);
      if (block.gate.panels > 0) square_sum<Model>(ffn_norm_tag(epoch));
    }
    if (block.head.panels > 0) square_sum<Model>(attention_norm_tag(epoch));
    ++epoch;
    sync(kStepDone, kNormThreads);
  } while (block.going);
}

/// The block's rows of the embedding become the step's first vector.
template <typename Model>
__device__ __noinline__ void embed(int token, uint epoch) {
  Block<Model>& block = block_of<Model>();
  const uint rows = block.down.panels * gpu::kPanel;
  constexpr uint kSegments = Model::kHidden / arith::kSegment;
  const uint panel = static_cast<uint>(token) / gpu::kPanel;
  const uint row = static_cast<uint>(token) % gpu::kPanel;
  for (uint i = threadIdx.x; i < rows; i += kThreads) {
    const uint column = block.down.first_panel * gpu::kPanel + i;
    const std::byte* segment =
        model().embedding + (std::size_t{panel} * kSegments + column / arith::kSegment) * kQ8SegmentBytes;
    const uint inside = column % arith::kSegment;
    const auto* quants = reinterpret_cast<const std::int8_t*>(segment + kScaleBytes);
    const int value = quants[(inside / kChunk * gpu::kPanel + row) * kChunk + inside % kChunk];
    const float scale =
        __half2float(reinterpret_cast<const __half*>(segment)[row * kSegmentBlocks + inside / arith::kBlock]);
    const float x = multiply(arith::to_float(value), scale);
    block.own_rows[i] = x;
    publish(model().exchange.x + word_place(column), x, epoch);
  }
}

/// From each thread's best to the step's token, the same in every block; -1 if nothing can be chosen. Also
/// where a step's writes to the cache become visible to the next step's readers: each block's are before its
/// word, and whoever has all words has them all.
__device__ inline __noinline__ void choose(Best best, uint epoch) {
  Shared& block = shared();
  const uint warp = threadIdx.x / kWarp;
  const uint lane = lane_index();
  best.reduce();
  if (lane == 0) {
    block.best_key[warp] = best.key;
    block.best_index[warp] = best.index;
  }
  sync(kTermsReady, kThreads);
  std::uint64_t* words = model().exchange.best;
  if (warp == 0) {
    best = {block.best_key[lane % kWarps], block.best_index[lane % kWarps]};
    best.reduce();
    if (lane == 0) {
      const volatile uint* cancel = block.step.cancel;
      __threadfence();
      publish(words + 4 * blockIdx.x, __uint_as_float(best.key), epoch);
      publish(words + 4 * blockIdx.x + 1, __uint_as_float(best.index), epoch);
      if (blockIdx.x == 0) {
        publish(words + 2, __uint_as_float(cancel != nullptr && *cancel != 0 ? 1U : 0U), epoch);
      }
    }
    // All at once, because an answer takes long.
    constexpr uint kMine = (kMostPersistentBlocks + kWarp - 1) / kWarp;
    Best all;
    Patience patience(Awaited::word);
    uint stop = 0;
    for (bool here = false; !here; patience.lose()) {
      WordPair pairs[kMine];
      const std::uint64_t stop_word = read_word(words + 2);
#pragma unroll
      for (uint i = 0; i < kMine; ++i) {
        if (i * kWarp < gridDim.x) pairs[i] = read_pair(words + 4 * min(lane + i * kWarp, gridDim.x - 1));
      }
      here = is_of(stop_word, epoch);
      stop = __float_as_uint(value_of(stop_word));
#pragma unroll
      for (uint i = 0; i < kMine; ++i) {
        if (i * kWarp >= gridDim.x) continue;
        here &= is_of(pairs[i].first, epoch) & is_of(pairs[i].second, epoch);
        all.take(__float_as_uint(value_of(pairs[i].first)), __float_as_uint(value_of(pairs[i].second)));
      }
      here = __all_sync(kAllLanes, here);
      if (!here) all = Best{};
    }
    all.reduce();
    __threadfence();
    if (lane == 0) {
      block.token[0] =
          all.key == kKeyOfNan || all.key <= kKeyOfMinusInfinity ? -1 : static_cast<int>(all.index);
      block.cancelled = stop != 0;
    }
  }
  sync(kTermsReady, kThreads);
}

/// Lanes that have a row's sum come in fours; one of them hands it on.
__device__ inline bool leads() {
  return lane_index() % 4 == 0;
}

/// Adds a row's sum to the residual stream and hands that on.
template <typename Model>
__device__ __forceinline__ void add_to_stream(std::uint64_t* words, uint own, float total, uint epoch) {
  if (!leads()) return;
  Block<Model>& block = block_of<Model>();
  const float x = add(block.own_rows[own], total);
  block.own_rows[own] = x;
  publish(words + word_place(block.down.first_panel * gpu::kPanel + own), x, epoch);
}

template <typename Model>
__device__ __forceinline__ Stream run_layer(Stream stream, const PersistentLayer& layer, uint epoch) {
  const Shared& block = shared();
  const PersistentExchange& exchange = model().exchange;
  stream = product<Model, typename Model::Qkv, true>(
      stream, block.qkv, {exchange.x, epoch, layer.attention_norm, attention_norm_tag(epoch)}, block.burst,
      [&](uint panel, uint row, float total, float, float factor) {
        const uint out = (block.qkv.first_panel + panel) * gpu::kPanel + row;
        if (leads()) publish(exchange.qkv + out, multiply(total, factor), epoch);
      });
  stream = attention<Model>(stream, layer, epoch);
  stream = product<Model, typename Model::Output, false>(
      stream, block.output, {exchange.mixed, epoch}, block.burst,
      [&](uint panel, uint row, float total, float, float) {
        add_to_stream<Model>(exchange.x_attended, panel * gpu::kPanel + row, total, epoch);
      });
  stream = product<Model, typename Model::GateUp, true>(
      stream, block.gate, {exchange.x_attended, epoch, layer.ffn_norm, ffn_norm_tag(epoch)}, block.burst,
      [&](uint panel, uint row, float gate, float up, float factor) {
        const uint out = (block.gate.first_panel + panel) * gpu::kPanel + row;
        const float value = arith::swiglu(multiply(gate, factor), multiply(up, factor));
        if (leads()) publish(exchange.activated + word_place(out), value, epoch);
      });
  return product<Model, typename Model::Down, false>(
      stream, block.down, {exchange.activated, epoch}, block.burst,
      [&](uint panel, uint row, float total, float, float) {
        add_to_stream<Model>(exchange.x, panel * gpu::kPanel + row, total, epoch + 1);
      });
}

/// The LM head of this block's rows.
template <typename Model>
__device__ __forceinline__ Stream run_head(Stream stream, uint epoch, Best& best) {
  const Shared& block = shared();
  float* logits = block.step.logits;
  return product<Model, typename Model::Head, true>(
      stream, block.head, {model().exchange.x, epoch, model().final_norm, attention_norm_tag(epoch)},
      Model::kSlots, [&](uint panel, uint row, float total, float, float factor) {
        const uint id = (block.head.first_panel + panel) * gpu::kPanel + row;
        if (!leads() || id >= model().vocab_size) return;
        const float logit = multiply(total, factor);
        const bool nan = arith::magnitude_bits(logit) > 0x7F800000U;
        best.take(nan ? kKeyOfNan : sampling::order_key(logit), id);
        if (logits != nullptr) logits[id] = logit;
      });
}

__device__ inline bool stops(int token) {
  const PersistentStep& step = shared().step;
  for (uint i = 0; i < step.stop_offsets[1]; ++i) {
    if (step.stop[i] == token) return true;
  }
  return token < 0;
}

/// Ends a step: says what was chosen and makes the next step's input of it. One thread.
template <typename Model>
__device__ __noinline__ void end_step(Stream stream) {
  Block<Model>& block = block_of<Model>();
  const uint done = block.planned;
  const int token = block.token[0];
  if (blockIdx.x == 0) {
    block.step.ids[done - 1] = token < 0 ? kNoChoice : token;
    __threadfence_system();
    *static_cast<volatile uint*>(block.step.steps_done) = done;
  }
  block.going = done < block.step.steps && !block.cancelled && !stops(token);
  if (block.going) {
    block.position[0] += 1;
    plan_attention<Model>(block.plan, block.position[0]);
    __threadfence_block();
    block.planned = done + 1;
    block.allowed = tile_of(stream) + Model::kSlots;  // all tiles of the step have been read
  } else {
    block.over = 1;
  }
}

/// The multiplying warps' steps.
template <typename Model>
__device__ __forceinline__ void run_steps() {
  Block<Model>& block = block_of<Model>();
  Stream stream = 0;
  uint epoch = block.step.epoch;
  do {
    embed<Model>(block.token[0], epoch);
#pragma unroll 1
    for (uint l = 0; l < model().layers; ++l, ++epoch) {
      stream = run_layer<Model>(stream, block.layers()[l], epoch);
    }
    Best best;
    stream = run_head<Model>(stream, epoch, best);
    choose(best, epoch);
    ++epoch;
    if (threadIdx.x == 0) end_step<Model>(stream);
    __syncwarp();
    arrive(kStepDone, kNormThreads);
    sync(kTermsReady, kThreads);
  } while (block.going);
}

template <typename Model>
__global__ void __launch_bounds__(kAllThreads, 1)
    persistent_steps(const __grid_constant__ PersistentStep step) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  Block<Model>& block = block_of<Model>();
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : block.full) init_barrier(&barrier);
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    block.allowed = Model::kSlots;
    block.over = 0;
    block.factor = 0;
    block.model = resident_model;
    share_out<Model>(block);
    block.token[0] = step.token[0];
    block.position[0] = step.position[0];
    block.running = 1;
    plan_attention<Model>(block.plan, step.position[0]);
    block.planned = 1;
  }
  const auto copy_words = [](void* target, const void* source, uint bytes) {
    for (uint i = threadIdx.x; i < bytes / sizeof(uint); i += kAllThreads)
      static_cast<uint*>(target)[i] = static_cast<const uint*>(source)[i];
  };
  copy_words(&block.step, &step, sizeof step);
  copy_words(block.layers(), resident_model.layer, (resident_model.layers + 1) * sizeof(PersistentLayer));
  __syncthreads();
  const uint warp = threadIdx.x / kWarp;
  if (warp == kFetchWarp) {
    if (lane_index() == 0) fetch_all<Model>();
  } else if (warp == kNormWarp) {
    assist<Model>();
  } else {
    run_steps<Model>();
  }
#endif
}

/// The kernel of the shape among these that `of` has.
template <typename... Models>
PersistentChoice choose_among(const PersistentModel& of) {
  PersistentChoice choice;
  const auto consider = [&]<typename Model>(const Model*) {
    if (!is_of_shape<Model>(of)) return;
    choice = {.function = address_of(persistent_steps<Model>),
              .model = &resident_model,
              .shared_bytes = sizeof(Block<Model>) + Model::kSlots * kTileBytes +
                              (of.layers + 1) * sizeof(PersistentLayer) +
                              of.max_splits * (kPartDims + 2) * sizeof(float),
              .own_rows = Model::kMostOwnRows,
              .most_rows = 1,
              .threads = kAllThreads};
  };
  (consider(static_cast<const Models*>(nullptr)), ...);
  return choice;
}

}  // namespace inferno::cuda::persistent
