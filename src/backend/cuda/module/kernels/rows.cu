// Whole decode steps of two to eight rows in one cooperative launch. docs/cuda.md describes the design and
// what it costs.

#include "backend/cuda/module/kernels/persistent_choice.cuh"
#include "backend/cuda/module/kernels/persistent_fetch.cuh"
#include "backend/cuda/module/kernels/rows_merge.cuh"
#include "backend/cuda/module/kernels/rows_products.cuh"
#include "backend/cuda/module/persistent_plan.hpp"

namespace inferno::cuda {
namespace persistent {

/// A model's shape: hidden size, feed-forward size, query heads, KV heads, head size; most rows; slots of the
/// ring.
template <uint kHiddenOf, uint kFfnOf, uint kHeadsOf, uint kKvHeadsOf, uint kHeadDimOf, uint kRowsOf,
          uint kSlotsOf>
struct RowsShape {
  static constexpr uint kRows = kRowsOf;
  static constexpr uint kSlots = kSlotsOf;
  static constexpr uint kGateUnit = arith::kBlock / gpu::kPanel;  // panels
  static constexpr uint kHidden = kHiddenOf, kFfn = kFfnOf, kHeads = kHeadsOf, kKvHeads = kKvHeadsOf,
                        kHeadDim = kHeadDimOf, kGroup = kHeads / kKvHeads, kMixed = kHeads * kHeadDim,
                        kQkvRows = kMixed + 2 * kKvHeads * kHeadDim;
  using Qkv = RowsMatrix<kHidden, kQkvRows, false, kSlots>;
  using Output = RowsMatrix<kMixed, kHidden, false, kSlots>;
  using GateUp = RowsMatrix<kHidden, kFfn, true, kSlots>;
  using Down = RowsMatrix<kFfn, kHidden, false, kSlots>;
  using Head = RowsMatrix<kHidden, 0, false, kSlots>;
  static constexpr uint kMostSegments = most(Qkv::kSegments, most(Output::kSegments, Down::kSegments));
  static constexpr uint kMostSums =
      most(most(Qkv::kSums, Head::kSums), most(Output::kSums, most(GateUp::kSums, Down::kSums)));
  /// Enough for half as many blocks as usual.
  static constexpr uint kMostOwnRows =
      2 * gpu::kPanel * ((kHidden / gpu::kPanel + kUsualBlocks - 1) / kUsualBlocks);
  static_assert(kRows > 1 && kRows <= kRowSlots && kSlots <= kMostSlots);
};

/// Who attends to what in the step that begins, written by one thread: the splits of all rows, one behind the
/// other, are cut into stretches of equal number for the blocks of a KV head. So what a block has is mostly
/// of one row, whose heads it makes ready once; and the last split, which is short, comes with a full one.
template <typename Model>
__device__ void plan_rows(Shared& block) {
  Plan& plan = block.plan;
  plan.members = gridDim.x / Model::kKvHeads;
  plan.kv_head = blockIdx.x / plan.members;
  plan.member = blockIdx.x % plan.members;
  plan.streamed = 0;
  if (plan.kv_head >= Model::kKvHeads) return;
  uint all = 0;
  for (uint row = 0; row < block.step.rows; ++row) all += block.position[row] / kSplit + 1;
  const uint end = all * (plan.member + 1) / plan.members;
  uint row = 0;
  uint passed = 0;  // splits of the rows before
  for (uint job = all * plan.member / plan.members; job < end; ++job) {
    while (job - passed > block.position[row] / kSplit) passed += block.position[row++] / kSplit + 1;
    block.jobs[plan.streamed++] = {static_cast<std::uint16_t>(row), static_cast<std::uint16_t>(job - passed)};
  }
}

/// What the norm warps do, in the order in which the others ask for it.
template <typename Model>
__device__ __noinline__ void assist_rows() {
  const Shared& block = shared();
  const bool sums = threadIdx.x / kWarp == kNormWarp;
  do {
    const uint jobs = block.plan.streamed;
#pragma unroll 1
    for (uint l = 0; l < model().layers; ++l) {
      if (block.qkv.panels > 0) square_sums<Model>();
      for (uint job = 0; sums && job < jobs; ++job) sum_weights<Model>(Model::kGroup);
      if (block.gate.panels > 0) square_sums<Model>();
    }
    if (block.head.panels > 0) square_sums<Model>();
    sync(kStepDone, kRowsNormThreads);
  } while (block.going);
}

/// The rows of the residual stream that are a block's own begin with its panels of O and down.
template <typename Model>
__device__ inline float& own_row(uint panel, uint row, uint token) {
  return block_of<Model>().own_rows[(panel * gpu::kPanel + row) * kRowSlots + token];
}

/// The block's rows of the tokens' embeddings become the step's first vectors.
template <typename Model>
__device__ __noinline__ void embed_rows(uint epoch) {
  const Shared& block = shared();
  constexpr uint kSegments = Model::kHidden / arith::kSegment;
  const uint warp = threadIdx.x / kWarp;
  const uint token = warp % 2 * 4 + lane_index() / 8;
  const uint id = static_cast<uint>(block.token[min(token, block.step.rows - 1)]);
  for (uint panel = warp / 2; panel < block.down.panels; panel += kWarps / 2) {
    const uint column = (block.down.first_panel + panel) * gpu::kPanel + lane_index() % 8;
    const std::byte* segment =
        model().embedding +
        (std::size_t{id / gpu::kPanel} * kSegments + column / arith::kSegment) * kQ8SegmentBytes;
    const uint inside = column % arith::kSegment;
    const auto* quants = reinterpret_cast<const std::int8_t*>(segment + kScaleBytes);
    const int value = quants[(inside / kChunk * gpu::kPanel + id % gpu::kPanel) * kChunk + inside % kChunk];
    const float scale = __half2float(
        reinterpret_cast<const __half*>(segment)[id % gpu::kPanel * kSegmentBlocks + inside / arith::kBlock]);
    const float x = multiply(arith::to_float(value), scale);
    own_row<Model>(panel, lane_index() % 8, token) = x;
    publish_panel(model().exchange.x, block.down.first_panel + panel, token, x, epoch);
  }
}

/// Adds a sum to the residual stream and hands that on.
template <typename Model>
__device__ __forceinline__ void add_to_streams(std::uint64_t* words, uint panel, uint row, uint token,
                                               float total, uint epoch) {
  float& own = own_row<Model>(panel, row, token);
  const float x = add(own, total);
  own = x;
  publish_panel(words, shared().down.first_panel + panel, token, x, epoch);
}

template <typename Model>
__device__ __forceinline__ Stream run_rows_layer(Stream stream, const PersistentLayer& layer, uint epoch) {
  const Shared& block = shared();
  const PersistentExchange& exchange = model().exchange;
  const auto nothing = [](uint) {};
  stream = product_rows<Model, typename Model::Qkv, Intakes::normed>(
      stream, block.qkv, {exchange.x, epoch, layer.attention_norm}, block.burst,
      [&](uint panel, uint row, uint token, float total, float, float factor) {
        const uint out = (block.qkv.first_panel + panel) * gpu::kPanel + row;
        if (token < block.step.rows)
          publish(exchange.qkv + token * Model::kQkvRows + out, multiply(total, factor), epoch);
      },
      nothing);
  if (block.plan.streamed == 0) allow<Model>(tile_of(stream), block.burst);
  stream = attend_streamed<Model>(stream, layer, epoch);
  merge_rows<Model>(epoch);
  stream = product_rows<Model, typename Model::Output, Intakes::quants>(
      stream, block.output, {exchange.mixed, epoch, nullptr, exchange.mixed_scales}, block.burst,
      [&](uint panel, uint row, uint token, float total, float, float) {
        add_to_streams<Model>(exchange.x_attended, panel, row, token, total, epoch);
      },
      nothing);
  const QuantWords activated = {exchange.activated, exchange.activated + Model::kFfn / 4 * kRowSlots};
  stream = product_rows<Model, typename Model::GateUp, Intakes::normed>(
      stream, block.gate, {exchange.x_attended, epoch, layer.ffn_norm}, block.burst,
      [&](uint panel, uint row, uint token, float gate, float up, float factor) {
        block_of<Model>().staged[token][panel % Model::kGateUnit * gpu::kPanel + row] =
            arith::swiglu(multiply(gate, factor), multiply(up, factor));
      },
      [&](uint first) {
        sync(kTermsReady, kThreads);
        const uint token = threadIdx.x / kWarp;
        if (token >= block.step.rows) return;
        publish_quants(activated, token, (block.gate.first_panel + first) / Model::kGateUnit,
                       block_of<Model>().staged[token][lane_index()], epoch);
      });
  return product_rows<Model, typename Model::Down, Intakes::quants>(
      stream, block.down, {activated.words, epoch, nullptr, activated.scales}, block.burst,
      [&](uint panel, uint row, uint token, float total, float, float) {
        add_to_streams<Model>(exchange.x, panel, row, token, total, epoch + 1);
      },
      nothing);
}

/// The LM head of this block's rows; each thread has one token.
template <typename Model>
__device__ __forceinline__ Stream run_rows_head(Stream stream, uint epoch, Best& best) {
  const Shared& block = shared();
  float* logits = block.step.logits;
  return product_rows<Model, typename Model::Head, Intakes::normed>(
      stream, block.head, {model().exchange.x, epoch, model().final_norm}, Model::kSlots,
      [&](uint panel, uint row, uint token, float total, float, float factor) {
        const uint id = (block.head.first_panel + panel) * gpu::kPanel + row;
        if (id >= model().vocab_size || token >= block.step.rows) return;
        const float logit = multiply(total, factor);
        const bool nan = arith::magnitude_bits(logit) > 0x7F800000U;
        best.take(nan ? kKeyOfNan : sampling::order_key(logit), id);
        if (logits != nullptr) logits[token * block.step.logits_stride + id] = logit;
      },
      [](uint) {});
}

/// From each thread's best of its token to the rows' choices, the same in every block; -1 where nothing can
/// be chosen. Also where a step's writes to the cache become visible to the next step's readers: see
/// choose().
template <typename Model>
__device__ __noinline__ void choose_rows(Best best, uint epoch) {
  Block<Model>& block = block_of<Model>();
  const uint warp = threadIdx.x / kWarp;
  const uint lane = lane_index();
  constexpr uint kWarpTokens = kRowSlots / 2;
#pragma unroll
  for (uint step = gpu::kPanel / 2; step > 0; step /= 2) {
    best.take(__shfl_xor_sync(kAllLanes, best.key, step), __shfl_xor_sync(kAllLanes, best.index, step));
  }
  if (lane % gpu::kPanel == 0) {
    block.best_keys[warp][lane / gpu::kPanel] = best.key;
    block.best_indices[warp][lane / gpu::kPanel] = best.index;
  }
  sync(kTermsReady, kThreads);
  std::uint64_t* words = model().exchange.best;
  const auto word_of = [&](uint of_block) { return words + (of_block * kRowSlots + warp) * std::size_t{2}; };
  std::uint64_t* stop_word = words + kMostPersistentBlocks * kRowSlots * std::size_t{2};
  if (warp < block.step.rows) {
    const uint from = lane % (kWarps / 2) * 2 + warp / kWarpTokens;
    best = {block.best_keys[from][warp % kWarpTokens], block.best_indices[from][warp % kWarpTokens]};
    best.reduce();
    if (lane == 0) {
      const volatile uint* cancel = block.step.cancel;
      __threadfence();
      publish(word_of(blockIdx.x), __uint_as_float(best.key), epoch);
      publish(word_of(blockIdx.x) + 1, __uint_as_float(best.index), epoch);
      if (blockIdx.x == 0 && warp == 0) {
        publish(stop_word, __uint_as_float(cancel != nullptr && *cancel != 0 ? 1U : 0U), epoch);
      }
    }
    __syncwarp();
    // All at once, because an answer takes long.
    constexpr uint kMine = (kMostPersistentBlocks + kWarp - 1) / kWarp;
    Best all;
    Patience patience(Awaited::word);
    uint stop = 0;
    for (bool here = false; !here; patience.lose()) {
      WordPair pairs[kMine];
      const std::uint64_t stopping = read_word(stop_word);
#pragma unroll
      for (uint i = 0; i < kMine; ++i) {
        if (i * kWarp < gridDim.x) pairs[i] = read_pair(word_of(min(lane + i * kWarp, gridDim.x - 1)));
      }
      here = is_of(stopping, epoch);
      stop = __float_as_uint(value_of(stopping));
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
      block.chosen[warp] =
          all.key == kKeyOfNan || all.key <= kKeyOfMinusInfinity ? -1 : static_cast<int>(all.index);
      if (warp == 0) block.cancelled = stop != 0;
    }
  }
  sync(kTermsReady, kThreads);
}

__device__ inline bool stops_row(const PersistentStep& step, uint row, int token) {
  for (uint i = step.stop_offsets[row]; i < step.stop_offsets[row + 1]; ++i) {
    if (step.stop[i] == token) return true;
  }
  return false;
}

/// Ends a step: says what was chosen and makes the next step's inputs of it. One thread.
template <typename Model>
__device__ void end_step(Stream stream, uint done) {
  Block<Model>& block = block_of<Model>();
  const PersistentStep& step = block.step;
  const bool goes_on = done < step.steps && !block.cancelled;
  for (uint row = 0; row < step.rows; ++row) {
    const int token = block.chosen[row];
    const bool ran = (block.running >> row & 1U) != 0;
    if (blockIdx.x == 0)
      step.ids[(done - 1) * step.rows + row] = !ran ? kNotRunning : token < 0 ? kNoChoice : token;
    if (!ran) continue;
    if (goes_on && token >= 0 && !stops_row(step, row, token)) {
      block.token[row] = token;
      block.position[row] += 1;
    } else {
      block.running &= ~(1U << row);
    }
  }
  if (blockIdx.x == 0) {
    __threadfence_system();
    *static_cast<volatile uint*>(step.steps_done) = done;
  }
  block.going = block.running != 0;
  if (block.going) {
    plan_rows<Model>(block);
    __threadfence_block();
    block.planned = done + 1;
    block.allowed = tile_of(stream) + Model::kSlots;  // all tiles of the step have been read
  } else {
    block.over = 1;
  }
}

/// The multiplying warps' steps.
template <typename Model>
__device__ __forceinline__ void run_rows_steps() {
  Block<Model>& block = block_of<Model>();
  Stream stream = 0;
  uint done = 0;
  do {
    const uint epoch = block.step.epoch + done * (model().layers + 1);
    embed_rows<Model>(epoch);
#pragma unroll 1
    for (uint l = 0; l < model().layers; ++l) {
      stream = run_rows_layer<Model>(stream, block.layers()[l], epoch + l);
    }
    Best best;
    stream = run_rows_head<Model>(stream, epoch + model().layers, best);
    choose_rows<Model>(best, epoch + model().layers);
    ++done;
    if (threadIdx.x == 0) end_step<Model>(stream, done);
    __syncwarp();
    arrive(kStepDone, kRowsNormThreads);
    sync(kTermsReady, kThreads);
  } while (block.going);
}

template <typename Model>
__global__ void __launch_bounds__(kRowsAllThreads, 1)
    persistent_rows_steps(const __grid_constant__ PersistentStep step) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  Block<Model>& block = block_of<Model>();
  const auto copy_words = [](void* target, const void* source, uint bytes) {
    for (uint i = threadIdx.x; i < bytes / sizeof(uint); i += kRowsAllThreads)
      static_cast<uint*>(target)[i] = static_cast<const uint*>(source)[i];
  };
  copy_words(&block.step, &step, sizeof step);
  copy_words(block.layers(), resident_model.layer, (resident_model.layers + 1) * sizeof(PersistentLayer));
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : block.full) init_barrier(&barrier);
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    block.allowed = Model::kSlots;
    block.over = 0;
    block.model = resident_model;
    share_out<Model>(block);
    for (uint row = 0; row < step.rows; ++row) {
      block.token[row] = step.token[row];
      block.position[row] = step.position[row];
    }
    block.running = (1U << step.rows) - 1U;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    plan_rows<Model>(block);
    block.planned = 1;
  }
  __syncthreads();
  const uint warp = threadIdx.x / kWarp;
  if (warp == kRowsFetchWarp) {
    if (lane_index() == 0) fetch_all<Model>();
  } else if (warp >= kWarps) {
    assist_rows<Model>();
  } else {
    run_rows_steps<Model>();
  }
#endif
}

template <typename... Models>
PersistentChoice choose_rows_among(const PersistentModel& of) {
  PersistentChoice choice;
  const auto consider = [&]<typename Model>(const Model*) {
    if (!is_of_shape<Model>(of)) return;
    choice = {.function = address_of(persistent_rows_steps<Model>),
              .model = &resident_model,
              .shared_bytes = sizeof(Block<Model>) + Model::kSlots * kTileBytes +
                              (of.layers + 1) * sizeof(PersistentLayer),
              .own_rows = Model::kMostOwnRows,
              .most_rows = Model::kRows,
              .threads = kRowsAllThreads};
  };
  (consider(static_cast<const Models*>(nullptr)), ...);
  return choice;
}

}  // namespace persistent

/// The model that ships with the project, and Qwen3's small ones: what else there is has too little shared
/// memory left for the ring.
PersistentChoice choose_rows_kernel(const PersistentModel& of) {
  using persistent::RowsShape;
  return persistent::choose_rows_among<RowsShape<256, 768, 8, 4, 64, 8, 16>,       //
                                       RowsShape<1024, 3072, 16, 8, 128, 8, 14>>(  // 0.6B
      of);
}

}  // namespace inferno::cuda
