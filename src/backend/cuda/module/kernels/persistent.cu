// Whole decode steps of one row in one cooperative launch. docs/cuda.md describes the design and what it
// costs.

#include <algorithm>

#include "backend/cuda/module/kernels/persistent_attention.cuh"
#include "backend/cuda/module/persistent_plan.hpp"
#include "sampling/fixed_exp.hpp"

namespace inferno::cuda {
namespace persistent {

constexpr uint kKeyOfMinusInfinity = 0x007FFFFFU;
constexpr uint kKeyOfNan = 0xFFFFFFFFU;

/// The block's shares of all matrices.
__device__ void share_out(Shared& block) {
  block.qkv = Share((model().heads + 2 * model().kv_heads) * model().head_dim, model().hidden_size,
                    block.batches.qkv);
  block.output = Share(model().hidden_size, model().heads * model().head_dim, block.batches.output);
  block.gate = Share(model().ffn_size, model().hidden_size, block.batches.gate);
  block.down = Share(model().hidden_size, model().ffn_size, block.batches.down);
  block.head = Share(gpu::kPanel * ((model().vocab_size + gpu::kPanel - 1) / gpu::kPanel),
                     model().hidden_size, block.batches.head);
  const auto tiles = [](const Share& share) {
    uint sum = 0;
    for (uint batch = 0; batch < share.batches(); ++batch) sum += share.batch_tiles(batch);
    return sum;
  };
  const uint layer_tiles = tiles(block.qkv) + tiles(block.output) + 2 * tiles(block.gate) + tiles(block.down);
  // Tiles are let through when a vector has arrived, and in attention.
  const uint points = 1 + (block.qkv.panels > 0 ? 1 : 0) + (block.output.panels > 0 ? 2 : 0) +
                      (block.gate.panels > 0 ? 1 : 0);
  block.burst = layer_tiles > kSlots ? kSlots : (layer_tiles + points - 1) / points;
}

/// The fetching thread: brings tile after tile in the order of use, as far ahead as it is allowed to.
class Fetcher {
 public:
  /// False: the launch is over. `second_panel`: where the panels of a second part begin, 0 if there is none.
  __device__ bool matrix(const std::byte* weights, const Share& share, uint second_panel) {
    for (uint batch = 0; batch < share.batches(); ++batch) {
      const uint panel = share.first_panel + batch * share.batch;
      if (!panels(weights, share, panel, share.batch_panels(batch))) return false;
      if (second_panel != 0 && !panels(weights, share, second_panel + panel, share.batch_panels(batch)))
        return false;
    }
    return true;
  }
  /// Copies that are on their way must not meet a block that has left.
  __device__ void finish() const {
    for (uint tile = tile_ > kSlots ? tile_ - kSlots : 0; tile < tile_; ++tile) {
      wait_barrier(shared().full + tile % kSlots, tile / kSlots % 2);
    }
  }

 private:
  __device__ bool panels(const std::byte* weights, const Share& share, uint panel, uint count) {
    const std::byte* source = weights + std::size_t{panel} * share.segments * kQ8SegmentBytes;
    for (uint bytes = count * share.segments * kQ8SegmentBytes; bytes > 0;) {
      while (static_cast<int>(shared().allowed - tile_) <= 0) {
        if (shared().over != 0) return false;
      }
      const uint slot = tile_ % kSlots;
      const uint piece = min(bytes, kTileBytes);
      bulk_copy(ring() + slot * kTileBytes, source, piece, shared().full + slot);
      source += piece;
      bytes -= piece;
      ++tile_;
    }
    return true;
  }

  uint tile_ = 0;
};

__device__ __noinline__ void fetch_all() {
  const Shared& block = shared();
  Fetcher fetcher;
  bool going = true;
  for (uint s = 0; s < block.step.steps && going; ++s) {
#pragma unroll 1
    for (uint l = 0; l < model().layers && going; ++l) {
      const PersistentLayer& layer = model().layer[l];
      going = fetcher.matrix(layer.qkv, block.qkv, 0) &&
              fetcher.matrix(layer.attention_output, block.output, 0) &&
              fetcher.matrix(layer.gate_up, block.gate, model().ffn_size / gpu::kPanel) &&
              fetcher.matrix(layer.down, block.down, 0);
    }
    going = going && fetcher.matrix(model().lm_head, block.head, 0);
  }
  fetcher.finish();
}

/// 1 / rms of the vector in shared memory, by the norm warp.
__device__ __noinline__ void square_sum() {
  sync(kSquaresReady, kNormThreads);
  const uint lane = lane_index();
  const float* vector = vector_floats();
  float sum = 0.0F;
#pragma unroll 8
  for (uint i = lane; i < model().hidden_size; i += kWarp) sum = add(sum, multiply(vector[i], vector[i]));
  sum = tree_sum(sum);
  if (lane == 0) {
    shared().factor = arith::reciprocal_sqrt(add(multiply(sum, model().inverse_hidden), model().epsilon));
  }
  __threadfence_block();
  arrive(kFactorReady, kNormThreads);
}

/// What the norm warp does, in the order in which the others ask for it.
__device__ __noinline__ void assist() {
  const Shared& block = shared();
  uint done = 0;
  do {
    const uint jobs = Jobs(block.step.position + done).mine();
    for (uint l = 0; l < model().layers; ++l) {
      if (block.qkv.panels > 0) square_sum();
      for (uint job = 0; job < jobs; ++job) sum_weights();
      if (block.gate.panels > 0) square_sum();
    }
    if (block.head.panels > 0) square_sum();
    ++done;
    sync(kStepDone, kNormThreads);
  } while (block.going);
}

/// The block's rows of the embedding become the step's first vector.
__device__ __noinline__ void embed(int token, uint epoch) {
  const Share& share = shared().down;
  const uint rows = share.panels * gpu::kPanel;
  const uint segments = model().hidden_size / arith::kSegment;
  const uint panel = static_cast<uint>(token) / gpu::kPanel;
  const uint row = static_cast<uint>(token) % gpu::kPanel;
  for (uint i = threadIdx.x; i < rows; i += kThreads) {
    const uint column = share.first_panel * gpu::kPanel + i;
    const std::byte* segment =
        model().embedding + (std::size_t{panel} * segments + column / arith::kSegment) * kQ8SegmentBytes;
    const uint inside = column % arith::kSegment;
    const auto* quants = reinterpret_cast<const std::int8_t*>(segment + kScaleBytes);
    const int value = quants[(inside / kChunk * gpu::kPanel + row) * kChunk + inside % kChunk];
    const float scale =
        __half2float(reinterpret_cast<const __half*>(segment)[row * kSegmentBlocks + inside / arith::kBlock]);
    const float x = multiply(arith::to_float(value), scale);
    shared().own_rows[i] = x;
    publish(model().exchange.x + column, x, epoch);
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
__device__ __noinline__ int choose(uint epoch) {
  Shared& block = shared();
  const uint warp = threadIdx.x / kWarp;
  const uint lane = lane_index();
  sync(kTermsReady, kThreads);
  std::uint64_t* words = model().exchange.best;
  if (warp == 0) {
    Best best;
    for (uint i = lane; i < kThreads; i += kWarp) best.take(block.best_key[i], block.best_index[i]);
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
    Best all;
    for (uint b = lane; b < gridDim.x; b += kWarp) {
      const uint key = __float_as_uint(await(words + 4 * b, epoch));
      all.take(key, __float_as_uint(await(words + 4 * b + 1, epoch)));
    }
    all.reduce();
    const uint stop = __float_as_uint(await(words + 2, epoch));
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

template <typename Model>
__device__ __forceinline__ Stream run_layer(Stream stream, const LayerPointers& layer, uint position,
                                            uint epoch) {
  const Shared& block = shared();
  const PersistentExchange& exchange = model().exchange;
  stream = product<Model::kHidden, false>(
      stream, block.qkv, exchange.x, epoch, layer.attention_norm, block.burst,
      [epoch](uint panel, uint row, float total, float) {
        const uint out = (shared().qkv.first_panel + panel) * gpu::kPanel + row;
        if (leads()) publish(model().exchange.qkv + out, multiply(total, shared().factor), epoch);
      });
  attention<Model::kBlocks>(stream, layer.query_norm, layer.key_norm, layer.cache, position, epoch);
  stream = product<Model::kAttention, false>(
      stream, block.output, exchange.mixed, epoch, nullptr, block.burst,
      [epoch](uint panel, uint row, float total, float) {
        if (!leads()) return;
        const uint own = panel * gpu::kPanel + row;
        const float x = add(shared().own_rows[own], total);
        shared().own_rows[own] = x;
        publish(model().exchange.x_attended + shared().output.first_panel * gpu::kPanel + own, x, epoch);
      });
  stream = product<Model::kHidden, true>(
      stream, block.gate, exchange.x_attended, epoch, layer.ffn_norm, block.burst,
      [epoch](uint panel, uint row, float gate, float up) {
        const uint out = (shared().gate.first_panel + panel) * gpu::kPanel + row;
        const float factor = shared().factor;
        const float value = arith::swiglu(multiply(gate, factor), multiply(up, factor));
        if (leads()) publish(model().exchange.activated + out, value, epoch);
      });
  return product<Model::kFfn, false>(
      stream, block.down, exchange.activated, epoch, nullptr, block.burst,
      [epoch](uint panel, uint row, float total, float) {
        if (!leads()) return;
        const uint own = panel * gpu::kPanel + row;
        const float x = add(shared().own_rows[own], total);
        shared().own_rows[own] = x;
        publish(model().exchange.x + shared().down.first_panel * gpu::kPanel + own, x, epoch + 1);
      });
}

/// The LM head of this block's rows; the best of a thread's rows goes to shared memory.
template <typename Model>
__device__ __forceinline__ Stream run_head(Stream stream, uint epoch) {
  Shared& block = shared();
  block.best_key[threadIdx.x] = kKeyOfMinusInfinity;
  block.best_index[threadIdx.x] = 0xFFFFFFFFU;
  return product<Model::kHidden, false>(stream, block.head, model().exchange.x, epoch, model().final_norm,
                                        kSlots, [](uint panel, uint row, float total, float) {
                                          Shared& here = shared();
                                          const uint id = (here.head.first_panel + panel) * gpu::kPanel + row;
                                          if (!leads() || id >= model().vocab_size) return;
                                          const float logit = multiply(total, here.factor);
                                          const bool nan = arith::magnitude_bits(logit) > 0x7F800000U;
                                          Best best{here.best_key[threadIdx.x], here.best_index[threadIdx.x]};
                                          best.take(nan ? kKeyOfNan : sampling::order_key(logit), id);
                                          here.best_key[threadIdx.x] = best.key;
                                          here.best_index[threadIdx.x] = best.index;
                                          if (here.step.logits != nullptr) here.step.logits[id] = logit;
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
  Shared& block = shared();
  Stream stream = 0;
  int token = block.step.token;
  uint done = 0;
  do {
    const uint epoch = block.step.epoch + done * (model().layers + 1);
    embed(token, epoch);
    LayerPointers layer(model().layer[0]);
#pragma unroll 1
    for (uint l = 0; l < model().layers; ++l) {
      const LayerPointers next(model().layer[l + 1]);
      stream = run_layer<Model>(stream, layer, block.step.position + done, epoch + l);
      layer = next;
    }
    stream = run_head<Model>(stream, epoch + model().layers);
    token = choose(epoch + model().layers);
    ++done;
    if (threadIdx.x == 0) {
      if (blockIdx.x == 0) {
        block.step.ids[done - 1] = token;
        __threadfence_system();
        *static_cast<volatile uint*>(block.step.steps_done) = done;
      }
      block.going = done < block.step.steps && !block.cancelled && !stops(token);
      if (block.going) {
        allow(tile_of(stream), kSlots);  // all tiles of the step have been read
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
  Shared& block = shared();
  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : block.full) init_barrier(&barrier);
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
    block.allowed = kSlots;
    block.over = 0;
    block.model = resident_model;
    block.batches = resident_batches;
    share_out(block);
  }
  const auto* words = reinterpret_cast<const uint*>(&step);
  for (uint i = threadIdx.x; i < sizeof step / sizeof(uint); i += kAllThreads) {
    reinterpret_cast<uint*>(&block.step)[i] = words[i];
  }
  __syncthreads();
  const uint warp = threadIdx.x / kWarp;
  if (warp == kFetchWarp) {
    if (lane_index() == 0) fetch_all();
  } else if (warp == kNormWarp) {
    assist();
  } else {
    run_steps<Model>();
  }
#endif
}

/// Models by how many rounds a warp has over their vectors: small (the one that ships with the project),
/// 0.6B.
template <uint kHiddenRounds, uint kAttentionRounds, uint kFfnRounds, uint kHeadBlocks>
struct Shape {
  static constexpr uint kHidden = kHiddenRounds, kAttention = kAttentionRounds, kFfn = kFfnRounds,
                        kBlocks = kHeadBlocks;
};
using Small = Shape<1, 1, 1, 2>;
using Middle = Shape<1, 2, 3, 4>;

/// A kernel and the panels of its batches.
struct Choice {
  const void* function = nullptr;
  PersistentBatches batches;
};

constexpr uint rounds_of(uint columns) {
  return gpu::divide_up(2 * columns / arith::kSegment, kWarps);
}

/// Panels of a batch: their weights must fit the registers, their tiles the ring.
uint batch_of(uint rounds, uint columns, bool twin) {
  const uint tiles = gpu::divide_up(columns / arith::kSegment, kTileUnits) * (twin ? 2 : 1);
  const uint fit = std::min(kMostItems / rounds, kWarps);
  const uint panels = twin ? std::max(fit, 2U) / 2 : fit;
  return std::max(1U, std::min(panels, kSlots / 2 / tiles));
}

template <typename Model>
Choice choice_of(const PersistentModel& of) {
  const uint attention = of.heads * of.head_dim;
  PersistentBatches batches;
  batches.qkv = batch_of(Model::kHidden, of.hidden_size, false);
  batches.output = batch_of(Model::kAttention, attention, false);
  batches.gate = batch_of(Model::kHidden, of.hidden_size, true);
  batches.down = batch_of(Model::kFfn, of.ffn_size, false);
  batches.head = batches.qkv;
  batches.most_rounds = std::max({gpu::divide_up(rounds_of(of.hidden_size), Model::kHidden) * Model::kHidden,
                                  gpu::divide_up(rounds_of(attention), Model::kAttention) * Model::kAttention,
                                  gpu::divide_up(rounds_of(of.ffn_size), Model::kFfn) * Model::kFfn});
  const auto terms = [](uint panels, uint columns) {
    return panels * columns / arith::kSegment * kTermStride;
  };
  batches.term_floats = std::max({terms(std::max(batches.qkv, 2 * batches.gate), of.hidden_size),
                                  terms(batches.output, attention), terms(batches.down, of.ffn_size)});
  batches.shared_bytes = static_cast<uint>(
      kSlots * kTileBytes + sizeof(Shared) + of.hidden_size * sizeof(float) +
      kWarps * batches.most_rounds * sizeof(HalfSegment) + 2 * batches.term_floats * sizeof(float));
  return {address_of(persistent_steps<Model>), batches};
}

Choice choose_kernel(const PersistentModel& of) {
  const uint attention = of.heads * of.head_dim;
  const auto fits = [&](uint hidden, uint mixed, uint ffn) {
    return rounds_of(of.hidden_size) <= hidden && rounds_of(attention) <= mixed &&
           rounds_of(of.ffn_size) <= ffn;
  };
  if (of.head_dim == 64) return fits(1, 1, 1) ? choice_of<Small>(of) : Choice{};
  if (of.head_dim != 128) return {};
  return fits(1, 2, 3) ? choice_of<Middle>(of) : Choice{};
}

}  // namespace persistent

bool persistent_fits(const PersistentModel& of, const DeviceInfo& device) {
  using namespace persistent;  // NOLINT(google-build-using-namespace): its own
  const uint attention = of.heads * of.head_dim;
  for (const uint columns : {of.hidden_size, attention, of.ffn_size}) {
    if (columns % arith::kSegment != 0 || gpu::divide_up(columns / arith::kSegment, kTileUnits) > kSlots)
      return false;
  }
  const uint group = of.heads / of.kv_heads;
  if (device.major != 9 || device.multiprocessors > kMostPersistentBlocks || group > kMostGroup ||
      device.multiprocessors < of.kv_heads)
    return false;
  const uint own = gpu::divide_up(of.hidden_size, device.multiprocessors * gpu::kPanel) * gpu::kPanel;
  const Choice choice = choose_kernel(of);
  return choice.function != nullptr && choice.batches.shared_bytes <= device.shared_bytes &&
         own <= kMostOwnRows && of.max_splits * (kPartDims + 2) <= 2 * choice.batches.term_floats;
}

cudaError_t set_persistent_model(const PersistentModel& of, cudaStream_t stream) {
  const auto choice = persistent::choose_kernel(of);
  auto error =
      cudaMemcpyToSymbolAsync(persistent::resident_model, &of, sizeof of, 0, cudaMemcpyHostToDevice, stream);
  if (error != cudaSuccess) return error;
  error = cudaMemcpyToSymbolAsync(persistent::resident_batches, &choice.batches, sizeof choice.batches, 0,
                                  cudaMemcpyHostToDevice, stream);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(choice.function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(choice.batches.shared_bytes));
  return error == cudaSuccess ? cudaStreamSynchronize(stream) : error;
}

cudaError_t launch_persistent(const PersistentModel& of, const PersistentStep& step, unsigned blocks,
                              cudaStream_t stream) {
  const auto choice = persistent::choose_kernel(of);
  PersistentStep parameters = step;
  void* arguments[] = {&parameters};
  return cudaLaunchCooperativeKernel(choice.function, dim3(blocks), dim3(persistent::kAllThreads), arguments,
                                     choice.batches.shared_bytes, stream);
}

}  // namespace inferno::cuda
