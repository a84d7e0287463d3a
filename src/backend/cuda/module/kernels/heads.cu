// From query, key and value rows to quantized queries and a longer cache: norms, rotation, quantization.

#include "backend/cuda/module/kernels/common.cuh"

namespace inferno::cuda {
namespace {

using gpu::HeadConstants;

constexpr unsigned kThreads = 128;
constexpr unsigned kWarps = kThreads / kWarp;

/// Bytes of one KV head of one cache block (cpu::BlockLayout), and where its parts begin.
struct HeadLayout {
  std::size_t scales, values, value_scales, bytes;

  __device__ HeadLayout(uint block_size, uint padded_dim)
      : scales(std::size_t{block_size} * padded_dim),
        values(scales + std::size_t{block_size} * (padded_dim / arith::kBlock) * sizeof(float)),
        value_scales(values + scales),
        bytes(2 * values) {}
};

/// One head of one token. Grid (H + 2 K, T); E32 floats of shared memory.
__global__ void prepare_heads(float* qkv, const float* query_norm, const float* key_norm, const float* rope,
                              const uint* positions, const uint2* slots, std::int8_t* query_quants,
                              float* query_scales, std::byte* cache, HeadConstants c) {
  after_previous();
  extern __shared__ float head[];  // [E32]
  __shared__ float factor;
  const uint token = blockIdx.y;
  const uint lane = lane_index();
  const uint warp = threadIdx.x / kWarp;
  const bool query = blockIdx.x < c.heads;
  const bool key = !query && blockIdx.x < c.heads + c.kv_heads;
  const uint index = query ? blockIdx.x : (blockIdx.x - c.heads) % c.kv_heads;
  const uint first = query ? 0 : key ? c.key_offset : c.value_offset;
  float* source = qkv + std::size_t{token} * c.stride + first + index * c.head_dim;

  for (uint i = threadIdx.x; i < c.padded_dim; i += kThreads) head[i] = i < c.head_dim ? source[i] : 0.0F;
  __syncthreads();
  if (query || key) {
    if ((c.parts & gpu::kHeadNorm) != 0) {
      if (warp == 0) {
        float sum = 0.0F;
        for (uint i = lane; i < c.head_dim; i += kWarp) sum = add(sum, multiply(head[i], head[i]));
        sum = tree_sum(sum);
        if (lane == 0) factor = arith::reciprocal_sqrt(add(multiply(sum, c.inverse_length), c.epsilon));
      }
      __syncthreads();
      const float* weight = query ? query_norm : key_norm;
      for (uint i = threadIdx.x; i < c.head_dim; i += kThreads) {
        head[i] = multiply(multiply(head[i], factor), weight[i]);
      }
      __syncthreads();
    }
    if ((c.parts & gpu::kHeadRotate) != 0) {
      const uint half = c.head_dim / 2;
      const float* cosine = rope + std::size_t{positions[token]} * c.head_dim;
      for (uint i = threadIdx.x; i < half; i += kThreads) {
        const float a = head[i];
        const float b = head[i + half];
        const float cosine_i = cosine[i];
        const float sine_i = cosine[half + i];
        head[i] = arith::subtract(multiply(a, cosine_i), multiply(b, sine_i));
        head[i + half] = add(multiply(b, cosine_i), multiply(a, sine_i));
      }
      __syncthreads();
    }
    if ((c.parts & gpu::kHeadFloats) != 0) {
      for (uint i = threadIdx.x; i < c.head_dim; i += kThreads) source[i] = head[i];
    }
  }
  if ((c.parts & gpu::kHeadStore) == 0) return;

  const uint blocks = c.padded_dim / arith::kBlock;
  if (query) {
    const std::size_t at = std::size_t{token} * c.heads + index;
    for (uint block = warp; block < blocks; block += kWarps) {
      const float x = head[block * arith::kBlock + lane];
      const uint largest = largest_magnitude(x);
      const float inverse = arith::block_inverse(largest, arith::kInt8Levels);
      query_quants[at * c.padded_dim + block * arith::kBlock + lane] =
          static_cast<std::int8_t>(arith::quantize(x, inverse));
      if (lane == 0) {
        query_scales[at * blocks + block] =
            multiply(arith::block_scale(largest, arith::kInt8Step), c.softmax_scale);
      }
    }
    return;
  }
  const uint2 slot = slots[token];
  if (slot.x == gpu::kNoBlock) return;
  const HeadLayout layout(c.block_size, c.padded_dim);
  std::byte* at =
      cache + (std::size_t{slot.x} * c.kv_heads + index) * layout.bytes + (key ? 0 : layout.values);
  auto* values = reinterpret_cast<std::int8_t*>(at) + std::size_t{slot.y} * c.padded_dim;
  auto* scales = reinterpret_cast<float*>(at + layout.scales) + std::size_t{slot.y} * blocks;
  for (uint block = warp; block < blocks; block += kWarps) {
    quantize_block(head[block * arith::kBlock + lane], values + block * arith::kBlock, scales + block);
  }
}

constexpr uint kHeadWarps = 8;
constexpr uint kHeadTokens = 2;  // of a warp: what one waits for the other waits for, too

/// A query head, a key head or a value head of a token, in a warp: the lane has an element of each block
/// of 32.
template <uint kBlocks>
struct WholeHead {
  static constexpr uint kDim = kBlocks * arith::kBlock;
  static constexpr uint kHalf = kBlocks / 2;
  float x[kBlocks];
  float cosine[kHalf], sine[kHalf];

  __device__ void load(const float* source, const float* angles) {
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) x[b] = source[b * arith::kBlock];
    if (angles == nullptr) return;
#pragma unroll
    for (uint b = 0; b < kHalf; ++b) {
      cosine[b] = angles[b * arith::kBlock];
      sine[b] = angles[(kHalf + b) * arith::kBlock];
    }
  }

  /// The lane's part of the sum of squares.
  __device__ float squares() const {
    float sum = 0.0F;
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) sum = add(sum, multiply(x[b], x[b]));
    return sum;
  }

  __device__ void norm_and_rotate(float factor, const float (&weight)[kBlocks]) {
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) x[b] = multiply(multiply(x[b], factor), weight[b]);
#pragma unroll
    for (uint b = 0; b < kHalf; ++b) {
      const float low = x[b];
      const float high = x[b + kHalf];
      x[b] = arith::subtract(multiply(low, cosine[b]), multiply(high, sine[b]));
      x[b + kHalf] = add(multiply(high, cosine[b]), multiply(low, sine[b]));
    }
  }

  /// `row`: a head's place in shared memory, through which lanes get elements next to each other: one of them
  /// then finds the inverse for all that it has. `factor`: multiplies the scales.
  __device__ void store(float* row, std::int8_t* values, float* scales, bool scaled, float factor) const {
    constexpr uint kWidth = kBlocks;
    constexpr uint kBlockLanes = arith::kBlock / kWidth;
    const uint lane = lane_index();
    __syncwarp();  // what stood there has been read
#pragma unroll
    for (uint b = 0; b < kBlocks; ++b) row[b * arith::kBlock + lane] = x[b];
    __syncwarp();
    float own[4] = {};
    uint largest = 0;
#pragma unroll
    for (uint i = 0; i < kWidth; ++i) {
      own[i] = row[lane * kWidth + i];
      largest = max(largest, arith::magnitude_bits(own[i]));
    }
#pragma unroll
    for (uint half = kBlockLanes / 2; half > 0; half /= 2) {
      largest = max(largest, __shfl_xor_sync(kAllLanes, largest, half));
    }
    const uint bytes = quantize_four(own, largest);
    if constexpr (kWidth == 4) {
      *reinterpret_cast<uint*>(values + lane * kWidth) = bytes;
    } else {
      *reinterpret_cast<std::uint16_t*>(values + lane * kWidth) = static_cast<std::uint16_t>(bytes);
    }
    if (lane % kBlockLanes != 0) return;
    const float scale = arith::block_scale(largest, arith::kInt8Step);
    scales[lane / kBlockLanes] = scaled ? multiply(scale, factor) : scale;
  }
};

/// 1/rms of two heads from the lanes' parts of their sums of squares. The contract's tree leaves half of the
/// lanes idle from its first step on: they are the other head's.
__device__ void norm_factors(const float (&squares)[2], const HeadConstants& c, float (&factors)[2]) {
  constexpr uint kHalf = kWarp / 2;
  const bool second = lane_index() >= kHalf;
  const float received = __shfl_xor_sync(kAllLanes, second ? squares[0] : squares[1], kHalf);
  float sum = add(second ? squares[1] : squares[0], received);
#pragma unroll
  for (uint lanes = kHalf / 2; lanes > 0; lanes /= 2) sum = add(sum, __shfl_xor_sync(kAllLanes, sum, lanes));
  const float factor = arith::reciprocal_sqrt(add(multiply(sum, c.inverse_length), c.epsilon));
  factors[0] = __shfl_sync(kAllLanes, factor, 0);
  factors[1] = __shfl_sync(kAllLanes, factor, kHalf);
}

/// The same as prepare_heads for heads of 32 kBlocks elements, all parts but floats: a warp for each head of
/// kHeadTokens tokens. Grid (ceil((H + 2 K) / kHeadWarps), ceil(T / kHeadTokens)); T is the grid's y in the
/// command.
template <uint kBlocks>
__global__ void __launch_bounds__(kHeadWarps* kWarp)
    prepare_whole_heads(const float* qkv, const float* query_norm, const float* key_norm, const float* rope,
                        const uint* positions, const uint2* slots, std::int8_t* query_quants,
                        float* query_scales, std::byte* cache, HeadConstants c, const uint*, gpu::Grid grid) {
  using Head = WholeHead<kBlocks>;
  constexpr uint kDim = Head::kDim;
  static_assert(kBlocks == 2 || kBlocks == 4);
  __shared__ __align__(16) float rows[kHeadWarps][kDim];
  float* row = rows[threadIdx.x / kWarp];
  const uint lane = lane_index();
  const uint head = blockIdx.x * kHeadWarps + threadIdx.x / kWarp;
  const bool query = head < c.heads;
  const bool key = !query && head < c.heads + c.kv_heads;
  const bool value = !query && !key;
  float weight[kBlocks];
#pragma unroll
  for (uint b = 0; b < kBlocks; ++b) {
    weight[b] = value ? 0.0F : __ldg((query ? query_norm : key_norm) + b * arith::kBlock + lane);
  }
  after_previous();
  if (head >= c.heads + 2 * c.kv_heads) return;
  const uint index = query ? head : (head - c.heads) % c.kv_heads;
  const uint first = query ? 0 : key ? c.key_offset : c.value_offset;
  Head heads[kHeadTokens];
  uint2 own_slots[kHeadTokens];
#pragma unroll
  for (uint i = 0; i < kHeadTokens; ++i) {
    const uint token = min(blockIdx.y * kHeadTokens + i, grid.y - 1);
    own_slots[i] = query ? make_uint2(0, 0) : slots[token];
    heads[i].load(qkv + std::size_t{token} * c.stride + first + index * kDim + lane,
                  value ? nullptr : rope + std::size_t{positions[token]} * kDim + lane);
  }
  if (!value) {
    float factors[kHeadTokens];
    norm_factors({heads[0].squares(), heads[1].squares()}, c, factors);
#pragma unroll
    for (uint i = 0; i < kHeadTokens; ++i) heads[i].norm_and_rotate(factors[i], weight);
  }
#pragma unroll
  for (uint i = 0; i < kHeadTokens; ++i) {
    const uint token = blockIdx.y * kHeadTokens + i;
    if (token >= grid.y) return;
    if (query) {
      const std::size_t at = std::size_t{token} * c.heads + index;
      heads[i].store(row, query_quants + at * kDim, query_scales + at * kBlocks, true, c.softmax_scale);
      continue;
    }
    const uint2 slot = own_slots[i];
    if (slot.x == gpu::kNoBlock) continue;
    const HeadLayout layout(c.block_size, kDim);
    std::byte* at =
        cache + (std::size_t{slot.x} * c.kv_heads + index) * layout.bytes + (key ? 0 : layout.values);
    heads[i].store(row, reinterpret_cast<std::int8_t*>(at) + std::size_t{slot.y} * kDim,
                   reinterpret_cast<float*>(at + layout.scales) + std::size_t{slot.y} * kBlocks, false, 1.0F);
  }
}

template <uint kBlocks>
Launch launch_for(const Command& command) {
  return {address_of(prepare_whole_heads<kBlocks>),
          dim3(gpu::divide_up(command.grid.x, kHeadWarps), gpu::divide_up(command.grid.y, kHeadTokens)),
          dim3(kHeadWarps * kWarp),
          0,
          9,
          true};
}

}  // namespace

Launch plan_heads(const Command& command) {
  const auto& c = constants_of<HeadConstants>(command);
  if (c.parts == (gpu::kHeadNorm | gpu::kHeadRotate | gpu::kHeadStore)) {
    if (c.head_dim == 128) return launch_for<4>(command);
    if (c.head_dim == 64) return launch_for<2>(command);
  }
  return {address_of(prepare_heads), dim3(command.grid.x, command.grid.y), dim3(kThreads),
          static_cast<unsigned>(c.padded_dim * sizeof(float)), 9};
}

}  // namespace inferno::cuda
