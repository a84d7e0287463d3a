// Whole decode steps of one row in one cooperative launch. docs/cuda.md describes the design and what it
// costs.

#include "backend/cuda/module/kernels/persistent_attention.cuh"
#include "backend/cuda/module/kernels/persistent_products.cuh"
#include "backend/cuda/module/persistent_plan.hpp"
#include "sampling/fixed_exp.hpp"

namespace inferno::cuda {
namespace persistent {

constexpr uint kKeyOfMinusInfinity = 0x007FFFFFU;
constexpr uint kKeyOfNan = 0xFFFFFFFFU;

constexpr uint most(uint a, uint b) {
  return a > b ? a : b;
}

/// A model's shape: hidden size, feed-forward size, query heads, KV heads, head size; and slots of the ring.
template <uint kHiddenOf, uint kFfnOf, uint kHeadsOf, uint kKvHeadsOf, uint kHeadDimOf,
          uint kSlotsOf = kMostSlots>
struct Shape {
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

/// The block's shares of all matrices.
template <typename Model>
__device__ void share_out(Shared& block) {
  block.qkv = Share(Model::kQkvRows / gpu::kPanel);
  block.output = Share(Model::kHidden / gpu::kPanel);
  block.gate = Share(Model::kFfn / gpu::kPanel);
  block.down = Share(Model::kHidden / gpu::kPanel);
  block.head = Share((model().vocab_size + gpu::kPanel - 1) / gpu::kPanel);
  const auto tiles = [](auto of, const Share& share) {
    using Of = decltype(of);
    uint sum = 0;
    for (uint begin = 0; begin < share.panels; begin += Of::kBatch)
      sum += Of::kParts * Of::tiles(min(Of::kBatch, share.panels - begin));
    return sum;
  };
  const uint layer_tiles =
      tiles(typename Model::Qkv{}, block.qkv) + tiles(typename Model::Output{}, block.output) +
      tiles(typename Model::GateUp{}, block.gate) + tiles(typename Model::Down{}, block.down);
  // Tiles are let through when a vector has arrived, and in attention.
  const uint points = 1 + (block.qkv.panels > 0 ? 1 : 0) + (block.output.panels > 0 ? 2 : 0) +
                      (block.gate.panels > 0 ? 1 : 0);
  block.burst = layer_tiles > Model::kSlots ? Model::kSlots : (layer_tiles + points - 1) / points;
}

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
}

/// The fetching thread: brings tile after tile in the order of use, as far ahead as it is allowed to.
template <typename Model>
class Fetcher {
 public:
  /// False: the launch is over. `second_panel`: where the panels of a second part begin.
  template <typename Of>
  __device__ bool matrix(const std::byte* weights, const Share& share, uint second_panel = 0) {
    for (uint begin = 0; begin < share.panels; begin += Of::kBatch) {
      const uint panel = share.first_panel + begin;
      const uint count = min(Of::kBatch, share.panels - begin);
      if (!panels<Of>(weights, panel, count)) return false;
      if (Of::kTwin && !panels<Of>(weights, second_panel + panel, count)) return false;
    }
    return true;
  }
  /// Copies that are on their way must not meet a block that has left.
  __device__ void finish() const {
    for (uint tile = tile_ > Model::kSlots ? tile_ - Model::kSlots : 0; tile < tile_; ++tile) {
      wait_barrier(shared().full + tile % Model::kSlots, tile / Model::kSlots % 2);
    }
  }

 private:
  template <typename Of>
  __device__ bool panels(const std::byte* weights, uint panel, uint count) {
    const std::byte* source = weights + std::size_t{panel} * (Of::kSegments * kQ8SegmentBytes);
    for (uint bytes = count * Of::kSegments * kQ8SegmentBytes; bytes > 0;) {
      while (static_cast<int>(shared().allowed - tile_) <= 0) {
        if (shared().over != 0) return false;
      }
      const uint slot = tile_ % Model::kSlots;
      const uint piece = min(bytes, kTileBytes);
      bulk_copy(block_of<Model>().ring() + slot * kTileBytes, source, piece, shared().full + slot);
      source += piece;
      bytes -= piece;
      ++tile_;
    }
    return true;
  }

  uint tile_ = 0;
};

template <typename Model>
__device__ __noinline__ void fetch_all() {
  Block<Model>& block = block_of<Model>();
  Fetcher<Model> fetcher;
  bool going = true;
  for (uint s = 0; s < block.step.steps && going; ++s) {
#pragma unroll 1
    for (uint l = 0; l < model().layers && going; ++l) {
      const PersistentLayer& layer = block.layers()[l];
      going = fetcher.template matrix<typename Model::Qkv>(layer.qkv, block.qkv) &&
              fetcher.template matrix<typename Model::Output>(layer.attention_output, block.output) &&
              fetcher.template matrix<typename Model::GateUp>(layer.gate_up, block.gate,
                                                              Model::kFfn / gpu::kPanel) &&
              fetcher.template matrix<typename Model::Down>(layer.down, block.down);
    }
    going = going && fetcher.template matrix<typename Model::Head>(model().lm_head, block.head);
  }
  fetcher.finish();
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
    const uint whole_jobs = block.plan.mine(block.plan.whole_jobs);
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

/// From each thread's best to the step's token, the same in every block; -1 if nothing can be chosen. Also
/// where a step's writes to the cache become visible to the next step's readers: each block's are before its
/// word, and whoever has all words has them all.
__device__ __noinline__ int choose(Best best, uint epoch) {
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
      block.token = all.key == kKeyOfNan || all.key <= kKeyOfMinusInfinity ? -1 : static_cast<int>(all.index);
      block.cancelled = stop != 0;
    }
  }
  sync(kTermsReady, kThreads);
  return block.token;
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
__device__ __forceinline__ Stream run_layer(Stream stream, const PersistentLayer& layer, uint position,
                                            uint epoch) {
  const Shared& block = shared();
  const PersistentExchange& exchange = model().exchange;
  const uint burst = block.burst;
  stream = product<Model, typename Model::Qkv, true>(
      stream, block.qkv, {exchange.x, epoch, layer.attention_norm, attention_norm_tag(epoch)}, burst,
      [&](uint panel, uint row, float total, float, float factor) {
        const uint out = (block.qkv.first_panel + panel) * gpu::kPanel + row;
        if (leads()) publish(exchange.qkv + out, multiply(total, factor), epoch);
      });
  attention<Model>(stream, layer, position, epoch);
  stream = product<Model, typename Model::Output, false>(
      stream, block.output, {exchange.mixed, epoch}, burst,
      [&](uint panel, uint row, float total, float, float) {
        add_to_stream<Model>(exchange.x_attended, panel * gpu::kPanel + row, total, epoch);
      });
  stream = product<Model, typename Model::GateUp, true>(
      stream, block.gate, {exchange.x_attended, epoch, layer.ffn_norm, ffn_norm_tag(epoch)}, burst,
      [&](uint panel, uint row, float gate, float up, float factor) {
        const uint out = (block.gate.first_panel + panel) * gpu::kPanel + row;
        const float value = arith::swiglu(multiply(gate, factor), multiply(up, factor));
        if (leads()) publish(exchange.activated + word_place(out), value, epoch);
      });
  return product<Model, typename Model::Down, false>(
      stream, block.down, {exchange.activated, epoch}, burst,
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

__device__ bool stops(int token) {
  const PersistentStep& step = shared().step;
  for (uint i = 0; i < step.stop_ids; ++i) {
    if (step.stop[i] == token) return true;
  }
  return token < 0;
}

/// The multiplying warps' steps.
template <typename Model>
__device__ __forceinline__ void run_steps() {
  Block<Model>& block = block_of<Model>();
  Stream stream = 0;
  int token = block.step.token;
  uint done = 0;
  do {
    const uint epoch = block.step.epoch + done * (model().layers + 1);
    embed<Model>(token, epoch);
#pragma unroll 1
    for (uint l = 0; l < model().layers; ++l) {
      stream = run_layer<Model>(stream, block.layers()[l], block.step.position + done, epoch + l);
    }
    Best best;
    stream = run_head<Model>(stream, epoch + model().layers, best);
    token = choose(best, epoch + model().layers);
    ++done;
    if (threadIdx.x == 0) {
      if (blockIdx.x == 0) {
        block.step.ids[done - 1] = token;
        __threadfence_system();
        *static_cast<volatile uint*>(block.step.steps_done) = done;
      }
      block.going = done < block.step.steps && !block.cancelled && !stops(token);
      if (block.going) {
        plan_attention<Model>(block.plan, block.step.position + done);
        block.allowed = tile_of(stream) + Model::kSlots;  // all tiles of the step have been read
      } else {
        block.over = 1;
      }
    }
    sync(kStepDone, kNormThreads);
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
    plan_attention<Model>(block.plan, step.position);
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

/// A kernel and the shared memory of one of its blocks.
struct Choice {
  const void* function = nullptr;
  std::size_t shared_bytes = 0;
  uint own_rows = 0;
};

template <typename Model>
bool is_of_shape(const PersistentModel& of) {
  return of.hidden_size == Model::kHidden && of.ffn_size == Model::kFfn && of.heads == Model::kHeads &&
         of.kv_heads == Model::kKvHeads && of.head_dim == Model::kHeadDim;
}

template <typename... Models>
Choice choose_among(const PersistentModel& of) {
  Choice choice;
  const auto consider = [&]<typename Model>(const Model*) {
    if (!is_of_shape<Model>(of)) return;
    choice = {address_of(persistent_steps<Model>),
              sizeof(Block<Model>) + Model::kSlots * kTileBytes + (of.layers + 1) * sizeof(PersistentLayer) +
                  of.max_splits * (kPartDims + 2) * sizeof(float),
              Model::kMostOwnRows};
  };
  (consider(static_cast<const Models*>(nullptr)), ...);
  return choice;
}

/// The model that ships with the project, and Qwen3's dense ones.
Choice choose_kernel(const PersistentModel& of) {
  return choose_among<Shape<256, 768, 8, 4, 64>,            //
                      Shape<1024, 3072, 16, 8, 128>,        // 0.6B
                      Shape<2048, 6144, 16, 8, 128>,        // 1.7B
                      Shape<2560, 9728, 32, 8, 128, 14>,    // 4B
                      Shape<4096, 12288, 32, 8, 128, 14>>(  // 8B
      of);
}

}  // namespace persistent

bool persistent_fits(const PersistentModel& of, const DeviceInfo& device) {
  const auto choice = persistent::choose_kernel(of);
  const uint blocks = device.multiprocessors;
  return device.major == 9 && blocks <= kMostPersistentBlocks && blocks >= of.kv_heads &&
         choice.function != nullptr && choice.shared_bytes <= device.shared_bytes &&
         gpu::divide_up(of.hidden_size, blocks * gpu::kPanel) * gpu::kPanel <= choice.own_rows;
}

cudaError_t set_persistent_model(const PersistentModel& of, cudaStream_t stream) {
  const auto choice = persistent::choose_kernel(of);
  auto error =
      cudaMemcpyToSymbolAsync(persistent::resident_model, &of, sizeof of, 0, cudaMemcpyHostToDevice, stream);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(choice.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(choice.shared_bytes));
  return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

cudaError_t launch_persistent(const PersistentModel& of, const PersistentStep& step, unsigned blocks,
                              cudaStream_t stream) {
  const auto choice = persistent::choose_kernel(of);
  PersistentStep parameters = step;
  void* arguments[] = {&parameters};
  return cudaLaunchCooperativeKernel(choice.function, dim3(blocks), dim3(persistent::kAllThreads), arguments,
                                     choice.shared_bytes, stream);
}

}  // namespace inferno::cuda
