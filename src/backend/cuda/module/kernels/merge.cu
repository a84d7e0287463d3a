// The splits of a query head of a token, merged in ascending order.

#include <type_traits>

#include "backend/cuda/module/kernels/common.cuh"

namespace inferno::cuda {
namespace {

using gpu::MergeConstants;

constexpr uint kSplit = arith::kSplit;
constexpr unsigned kThreads = 256;
constexpr uint kWarps = kThreads / kWarp;

/// Splits of one head of one token, in ascending order. Grid (H, T'); a thread for each dimension of 32.
__global__ void merge_any(const float2* statistics, const float* outputs, const uint* positions, float* mixed,
                          std::int8_t* quants, float* scales, MergeConstants c) {
  after_previous();
  const uint head = blockIdx.x;
  const uint token = c.first_token + blockIdx.y;
  const uint splits = positions[token] / kSplit + 1;
  const std::size_t first = (std::size_t{blockIdx.y} * c.heads + head) * c.max_splits;
  statistics += first;
  outputs += first * c.padded_dim;
  float maximum = statistics[0].x;
  for (uint s = 1; s < splits; ++s) {
    if (statistics[s].x > maximum) maximum = statistics[s].x;
  }
  for (uint d = threadIdx.x; d < c.padded_dim; d += blockDim.x) {
    float sum = 0.0F;
    float denominator = 0.0F;
    for (uint s = 0; s < splits; ++s) {
      const float2 split = statistics[s];
      const float factor = arith::exponential(arith::subtract(split.x, maximum));
      denominator = add(denominator, multiply(factor, split.y));
      sum = add(sum, multiply(factor, outputs[std::size_t{s} * c.padded_dim + d]));
    }
    const float value = multiply(sum, arith::reciprocal(denominator));
    const std::size_t at = std::size_t{token} * c.stride + head * c.head_dim + d;
    if ((c.write & gpu::kWriteFloats) != 0 && d < c.head_dim) mixed[at] = value;
    if ((c.write & gpu::kWriteQuants) != 0) {
      quantize_block(value, quants + at - lane_index(), scales + at / arith::kBlock);
    }
  }
}

/// The same for heads of 32 kWidth elements: a warp for each, a lane has kWidth elements next to each other.
/// Grid (ceil(H / kWarps), T').
template <uint kWidth>
__global__ void __launch_bounds__(kThreads)
    merge_heads(const float2* statistics, const float* outputs, const uint* positions, float* mixed,
                std::int8_t* quants, float* scales, MergeConstants c) {
  after_previous();
  constexpr uint kDim = kWidth * kWarp;
  union Floats {
    std::conditional_t<kWidth == 4, float4, float2> all;
    float each[kWidth];
  };
  constexpr uint kBlockLanes = arith::kBlock / kWidth;
  const uint head = blockIdx.x * kWarps + threadIdx.x / kWarp;
  if (head >= c.heads) return;
  const uint lane = lane_index();
  const uint token = c.first_token + blockIdx.y;
  const std::size_t first_split = (std::size_t{blockIdx.y} * c.heads + head) * c.max_splits;
  statistics += first_split;
  outputs += first_split * kDim + lane * kWidth;
  const auto output_of = [&](uint split) {
    Floats output;
    output.all = *reinterpret_cast<const decltype(output.all)*>(outputs + std::size_t{split} * kDim);
    return output;
  };
  // Asked for before it is known how many splits there are: one answer to wait for instead of three.
  const uint position = positions[token];
  float2 own = lane < c.max_splits ? statistics[lane] : float2{};
  const Floats first_output = output_of(0);
  const uint splits = position / kSplit + 1;
  float maximum = lane < splits ? own.x : kMinusInfinity;
  for (uint s = lane + kWarp; s < splits; s += kWarp) maximum = fmaxf(maximum, statistics[s].x);
  if (splits == 1) {
    maximum = __shfl_sync(kAllLanes, maximum, 0);
  } else {  // (a NaN that is left out here is in its split's sums)
#pragma unroll
    for (uint lanes = kWarp / 2; lanes > 0; lanes /= 2) {
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, lanes));
    }
  }
  float sums[4] = {};  // the first kWidth count
  float denominator = 0.0F;
  // A lane has the factor of one split of 32.
  for (uint first = 0; first < splits; first += kWarp) {
    float factor = 0.0F;
    float weighed = 0.0F;
    if (first + lane < splits) {
      if (first > 0) own = statistics[first + lane];
      factor = arith::exponential(arith::subtract(own.x, maximum));
      weighed = multiply(factor, own.y);
    }
    const auto add_split = [&](uint s, const Floats& output) {
      const float factor_s = __shfl_sync(kAllLanes, factor, s);
      denominator = add(denominator, __shfl_sync(kAllLanes, weighed, s));
#pragma unroll
      for (uint i = 0; i < kWidth; ++i) sums[i] = add(sums[i], multiply(factor_s, output.each[i]));
    };
    if (first == 0) add_split(0, first_output);
    const uint count = min(kWarp, splits - first);
#pragma unroll 4
    for (uint s = first == 0 ? 1 : 0; s < count; ++s) add_split(s, output_of(first + s));
  }
  const float inverse = arith::reciprocal(denominator);
  uint largest = 0;
#pragma unroll
  for (float& value : sums) {
    value = multiply(value, inverse);
    largest = max(largest, arith::magnitude_bits(value));
  }
  const std::size_t at = std::size_t{token} * c.stride + head * kDim + lane * kWidth;
  if ((c.write & gpu::kWriteFloats) != 0) {
#pragma unroll
    for (uint i = 0; i < kWidth; ++i) mixed[at + i] = sums[i];
  }
  if ((c.write & gpu::kWriteQuants) == 0) return;
#pragma unroll
  for (uint half = kBlockLanes / 2; half > 0; half /= 2) {
    largest = max(largest, __shfl_xor_sync(kAllLanes, largest, half));
  }
  const uint values = quantize_four(sums, largest);
  if constexpr (kWidth == 4) {
    *reinterpret_cast<uint*>(quants + at) = values;
  } else {
    *reinterpret_cast<std::uint16_t*>(quants + at) = static_cast<std::uint16_t>(values);
  }
  if (lane % kBlockLanes == 0) scales[at / arith::kBlock] = arith::block_scale(largest, arith::kInt8Step);
}

template <uint kWidth>
Launch launch_for(const Command& command) {
  return {address_of(merge_heads<kWidth>), dim3(gpu::divide_up(command.grid.x, kWarps), command.grid.y),
          dim3(kThreads), 0, 6};
}

}  // namespace

Launch plan_merge(const Command& command) {
  const auto& c = constants_of<MergeConstants>(command);
  if (c.head_dim == 128) return launch_for<4>(command);
  if (c.head_dim == 64) return launch_for<2>(command);
  return {address_of(merge_any), dim3(command.grid.x, command.grid.y), dim3(min(c.padded_dim, 1024U)), 0, 6};
}

}  // namespace inferno::cuda
