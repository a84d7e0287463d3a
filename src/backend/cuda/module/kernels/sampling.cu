// How tokens are chosen on the device: rows with sampling slots as sampling/sampler.hpp says and with the
// same integers, and what happens between two chained steps.

#include "backend/cuda/module/kernels/common.cuh"
#include "sampling/fixed_exp.hpp"
#include "sampling/philox.hpp"

namespace inferno::cuda {
namespace {

using gpu::AdvanceConstants;
using gpu::SampleConstants;
using sampling::order_key;
using Wide = unsigned long long;

constexpr unsigned kThreads = 256;
constexpr uint kInfinityBits = 0x7F800000U;
constexpr uint kMinusInfinityBits = 0xFF800000U;
constexpr uint kKeyOfMinusInfinity = 0x007FFFFFU;
constexpr uint kNobody = 0xFFFFFFFFU;
constexpr float kBan = -100.0F;

__device__ bool is_nan(float value) {
  return arith::magnitude_bits(value) > kInfinityBits;
}

__device__ float penalized(float logit, const uint* state, uint seen) {
  const float penalty = __uint_as_float(state[gpu::kSampleRepetition]);
  if (seen != 0 && penalty != 1.0F) {
    const float inverse = __uint_as_float(state[gpu::kSampleInverseRepetition]);
    logit = multiply(logit, logit > 0.0F ? inverse : penalty);
  }
  const uint generated = seen & 0x7FFFFFFFU;
  if (generated == 0) return logit;
  logit = arith::subtract(logit, __uint_as_float(state[gpu::kSamplePresence]));
  const float frequency = __uint_as_float(state[gpu::kSampleFrequency]);
  return arith::subtract(logit, multiply(frequency, arith::to_float(static_cast<int>(generated))));
}

/// Bias, penalties, mask. A NaN stays one: it is an error whatever else is said of its id. Grid (ceil(V /
/// 256), rows).
__global__ void adjust(float* logits, const uint* states, const uint2* biases, const uint* counts,
                       const uint* masks, SampleConstants c) {
  after_previous();
  const uint id = blockIdx.x * kThreads + threadIdx.x;
  const uint* state = states + blockIdx.y * gpu::kSampleWords;
  const uint flags = state[gpu::kSampleFlags];
  if (id >= c.columns || (flags & gpu::kSampleHere) == 0) return;
  const std::size_t slot = state[gpu::kSampleSlot];
  float& target = logits[blockIdx.y * std::size_t{c.stride} + id];
  float logit = target;
  if (is_nan(logit)) return;
  for (uint i = 0; i < state[gpu::kSampleBiases]; ++i) {
    const uint2 entry = biases[slot * c.most_biases + i];
    if (entry.x != id) continue;
    const float bias = __uint_as_float(entry.y);
    logit = bias <= kBan ? __uint_as_float(kMinusInfinityBits) : add(logit, bias);
  }
  if ((flags & gpu::kSamplePenalizes) != 0) logit = penalized(logit, state, counts[slot * c.columns + id]);
  if ((flags & gpu::kSampleMasks) != 0 && (masks[slot * c.mask_words + id / 32] >> (id % 32) & 1U) == 0) {
    logit = __uint_as_float(kMinusInfinityBits);
  }
  target = logit;
}

/// Where a ranking by (key descending, id ascending) is cut: kept is what comes before.
struct Cut {
  uint key = 0;
  uint last = kNobody;

  __device__ bool keeps(uint other, uint id) const { return other > key || (other == key && id <= last); }
};

constexpr uint kBins = 2048;
constexpr uint kBinsEach = kBins / kThreads;

struct SampleShared {
  Wide bins[kBins];
  Wide sums[kThreads];
  uint found;
  Wide left;
};

/// A row's choice, by all threads of a workgroup. Every function is called by all of them and begins and ends
/// with all having seen what the shared memory held.
class Sampler {
 public:
  __device__ Sampler(const float* logits, uint columns, const uint* state, SampleShared& shared)
      : logits_(logits), columns_(columns), state_(state), shared_(shared) {}

  /// Whether there is anything to choose from.
  __device__ bool find_best() {
    bool spoilt = false;
    Wide best = static_cast<Wide>(kKeyOfMinusInfinity) << 32U;
    for (uint id = threadIdx.x; id < columns_; id += kThreads) {
      spoilt = spoilt || is_nan(logits_[id]);
      const Wide mine = static_cast<Wide>(order_key(logits_[id])) << 32U | ~id;
      if (mine > best && mine >> 32U > kKeyOfMinusInfinity) best = mine;
    }
    if (__syncthreads_or(spoilt ? 1 : 0) != 0) return false;
    shared_.sums[threadIdx.x] = best;
    __syncthreads();
    for (uint width = kThreads / 2; width > 0; width /= 2) {
      if (threadIdx.x < width && shared_.sums[threadIdx.x + width] > shared_.sums[threadIdx.x]) {
        shared_.sums[threadIdx.x] = shared_.sums[threadIdx.x + width];
      }
      __syncthreads();
    }
    best = shared_.sums[0];
    __syncthreads();
    best_key_ = static_cast<uint>(best >> 32U);
    best_id_ = ~static_cast<uint>(best);
    best_value_ = sampling::value_of_key(best_key_);
    return best_key_ > kKeyOfMinusInfinity;
  }
  __device__ uint best_id() const { return best_id_; }

  /// top-k, top-p, min-p, draw.
  __device__ uint draw(uint position) {
    scale_ = __uint_as_float(state_[gpu::kSampleScale]);
    const uint k = state_[gpu::kSampleTopK];
    if (k != 0 && k < total_mass(false)) top_k_ = cut_at_mass(k, false);
    if ((state_[gpu::kSampleFlags] & gpu::kSampleTopP) != 0) {
      const Wide mass = total_mass(true);
      const Wide share = state_[gpu::kSampleShare];
      // ceil(share * mass / 2^31)
      const Wide low = share * (mass & 0xFFFFFFFFU) + (sampling::kOne - 1U);
      const Wide target = 2 * (share * (mass >> 32U)) + (low >> 31U);
      top_p_ = cut_at_mass(target == 0 ? 1 : target, true);
    }
    least_ = state_[gpu::kSampleLeast];
    const Wide mass = total_mass(true);
    const auto words =
        sampling::philox({position, 0, 0, 0}, state_[gpu::kSampleSeed], state_[gpu::kSampleSeed + 1]);
    return id_at(__umul64hi(static_cast<Wide>(words.b) << 32U | words.a, mass), 0, true);
  }

 private:
  /// The mass of an id: its weight or 1; 0 if it was filtered out.
  __device__ uint mass_at(uint id, bool weighs) const {
    const uint key = order_key(logits_[id]);
    if (key <= kKeyOfMinusInfinity || !top_k_.keeps(key, id) || !top_p_.keeps(key, id)) return 0;
    if (!weighs) return 1;
    const float distance =
        key == best_key_ ? 0.0F : arith::subtract(best_value_, sampling::value_of_key(key));
    const uint weight = sampling::weight_of(distance, scale_);
    return weight >= least_ ? weight : 0;
  }

  __device__ Wide total_mass(bool weighs) {
    Wide sum = 0;
    for (uint id = threadIdx.x; id < columns_; id += kThreads) sum += mass_at(id, weighs);
    shared_.sums[threadIdx.x] = sum;
    __syncthreads();
    for (uint width = kThreads / 2; width > 0; width /= 2) {
      if (threadIdx.x < width) shared_.sums[threadIdx.x] += shared_.sums[threadIdx.x + width];
      __syncthreads();
    }
    sum = shared_.sums[0];
    __syncthreads();
    return sum;
  }

  /// The id in whose stretch of mass `target` falls, ids with `only_key` (0: all) laid end to end.
  __device__ uint id_at(Wide target, uint only_key, bool weighs) {
    const uint stretch = (columns_ + kThreads - 1) / kThreads;
    const uint first = min(threadIdx.x * stretch, columns_);
    const uint end = min(first + stretch, columns_);
    const auto mass_of = [&](uint id) {
      return only_key != 0 && order_key(logits_[id]) != only_key ? 0U : mass_at(id, weighs);
    };
    Wide sum = 0;
    for (uint id = first; id < end; ++id) sum += mass_of(id);
    shared_.sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      uint i = 0;
      while (i < kThreads - 1 && target >= shared_.sums[i]) target -= shared_.sums[i++];
      shared_.found = i;
      shared_.left = target;
    }
    __syncthreads();
    const bool mine = threadIdx.x == shared_.found;
    target = shared_.left;
    __syncthreads();
    if (mine) {
      uint last = first;
      for (uint id = first; id < end; ++id) {
        const Wide mass = mass_of(id);
        if (mass == 0) continue;
        last = id;
        if (target < mass) break;
        target -= mass;
      }
      shared_.found = last;
    }
    __syncthreads();
    const uint id = shared_.found;
    __syncthreads();
    return id;
  }

  /// The shortest prefix of the ranking whose mass is at least `target`: sampling/select.hpp, digit by digit.
  __device__ Cut cut_at_mass(Wide target, bool weighs) {
    uint prefix = 0;
    for (uint digit = 0; digit < 3; ++digit) {
      const uint shift = digit == 0 ? 21 : digit == 1 ? 10 : 0;
      const uint mask = digit == 2 ? 1023 : 2047;
      const uint known = digit == 0 ? 0 : digit == 1 ? 0xFFE00000U : 0xFFFFFC00U;
      for (uint i = threadIdx.x; i < kBins; i += kThreads) shared_.bins[i] = 0;
      __syncthreads();
      for (uint id = threadIdx.x; id < columns_; id += kThreads) {
        const uint key = order_key(logits_[id]);
        if (((key ^ prefix) & known) != 0) continue;
        const Wide mass = mass_at(id, weighs);
        if (mass != 0) atomicAdd(&shared_.bins[key >> shift & mask], mass);
      }
      __syncthreads();
      Wide sum = 0;
      for (uint i = threadIdx.x * kBinsEach; i < (threadIdx.x + 1) * kBinsEach; ++i) sum += shared_.bins[i];
      shared_.sums[threadIdx.x] = sum;
      __syncthreads();
      if (threadIdx.x == 0) {
        uint i = kThreads - 1;
        while (i > 0 && shared_.sums[i] < target) target -= shared_.sums[i--];
        uint bin = (i + 1) * kBinsEach - 1;
        while (bin > i * kBinsEach && shared_.bins[bin] < target) target -= shared_.bins[bin--];
        shared_.found = bin;
        shared_.left = target;
      }
      __syncthreads();
      prefix |= shared_.found << shift;
      target = shared_.left;
      __syncthreads();
    }
    // Of equal keys the lower ids, as far as the target reaches: the id in whose mass unit target - 1 lies.
    Cut cut;
    cut.last = id_at(target - 1, prefix, weighs);
    cut.key = prefix;
    return cut;
  }

  const float* logits_;
  uint columns_;
  const uint* state_;
  SampleShared& shared_;
  float scale_ = 0.0F;
  float best_value_ = 0.0F;
  uint best_key_ = 0;
  uint best_id_ = kNobody;
  uint least_ = 0;
  Cut top_k_, top_p_;
};

/// Grid (rows).
__global__ void sample(const float* logits, const uint* states, uint* counts, const uint* positions,
                       const uint* head_map, uint* chosen, SampleConstants c) {
  __shared__ SampleShared shared;
  after_previous();
  const uint row = blockIdx.x;
  const uint* state = states + row * gpu::kSampleWords;
  const uint flags = state[gpu::kSampleFlags];
  if ((flags & gpu::kSampleHere) == 0) return;  // argmax has chosen
  Sampler sampler(logits + row * std::size_t{c.stride}, c.columns, state, shared);
  if (!sampler.find_best()) {
    if (threadIdx.x == 0) chosen[row] = gpu::kNothingChosen;
    return;
  }
  uint id = sampler.best_id();
  if ((flags & gpu::kSampleDraws) != 0) id = sampler.draw(positions[head_map[row]] + 1);
  if (threadIdx.x != 0) return;
  chosen[row] = id;
  if ((flags & gpu::kSamplePenalizes) != 0)
    counts[std::size_t{state[gpu::kSampleSlot]} * c.columns + id] += 1;
}

__device__ bool is_stop(const int* stops, uint rows, uint row, int id) {
  for (int i = stops[row]; i < stops[row + 1]; ++i) {
    if (stops[rows + 1 + i] == id) return true;
  }
  return false;
}

/// What a row chose is its next token, at the next position. One workgroup, a thread for each row in turn.
/// `chain` is the host's memory, because the host may cancel while the device runs.
__global__ void advance(const uint* chosen, int* tokens, uint* positions, uint2* slots, const uint* tables,
                        uint4* tiles, uint* grid, const int* stops, volatile uint* chain, int* ids,
                        AdvanceConstants c) {
  __shared__ uint most_splits;
  after_previous();
  const uint step = chain[gpu::kChainStep];
  const bool cancelled = chain[gpu::kChainCancelled] != 0;
  if (threadIdx.x == 0) most_splits = 1;
  __syncthreads();
  for (uint row = threadIdx.x; row < c.rows; row += kThreads) {
    const bool runs = chain[gpu::kChainRunning + row] != 0;
    const uint choice = chosen[row];
    int id = gpu::kNotRunning;
    if (runs) id = choice == gpu::kNothingChosen ? gpu::kRunsDry : static_cast<int>(choice);
    ids[std::size_t{step} * c.rows + row] = id;

    uint position = positions[row];
    if (runs && id >= 0 && !is_stop(stops, c.rows, row, id) && !cancelled) {
      ++position;
      tokens[row] = id;
      positions[row] = position;
      tiles[row].z = position;
      slots[row] = make_uint2(tables[tiles[row].w + position / c.block_size], position % c.block_size);
    } else {
      chain[gpu::kChainRunning + row] = 0;
      slots[row].x = gpu::kNoBlock;
    }
    atomicMax(&most_splits, position / arith::kSplit + 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    grid[0] = most_splits;
    chain[gpu::kChainStep] = step + 1;
  }
}

}  // namespace

Launch plan_sampling(const Command& command) {
  switch (command.kernel) {
    case Kernel::adjust:
      return {address_of(adjust), dim3(command.grid.x, command.grid.y), dim3(kThreads), 0, 5};
    case Kernel::sample:
      return {address_of(sample), dim3(command.grid.x), dim3(kThreads), 0, 6};
    default:
      return {address_of(advance), dim3(1), dim3(kThreads), 0, 10};
  }
}

}  // namespace inferno::cuda
