// Kernels over single vectors: embedding, norm, quantization, SwiGLU, additions.

#include "backend/cuda/module/kernels/common.cuh"

namespace inferno::cuda {
namespace {

using gpu::AddConstants;
using gpu::EmbedConstants;
using gpu::GatherConstants;
using gpu::NormConstants;
using gpu::QuantizeConstants;
using gpu::SwigluConstants;

constexpr unsigned kThreads = 256;

__device__ float from_bf16(std::uint16_t bits) {
  return __uint_as_float(static_cast<uint>(bits) << 16U);
}

/// The element (row of its panel, column) of a packed table's segment. Formats by their tag type.
struct Q8 {
  static constexpr uint kSegmentBytes = kQ8SegmentBytes;
  static __device__ float element(const std::byte* segment, uint row, uint column) {
    const auto* scales = reinterpret_cast<const __half*>(segment);
    const auto* quants = reinterpret_cast<const std::int8_t*>(segment + kScaleBytes);
    const int value = quants[(column / kChunk * gpu::kPanel + row) * kChunk + column % kChunk];
    const auto scale = __half2float(scales[row * kSegmentBlocks + column / arith::kBlock]);
    return multiply(arith::to_float(value), scale);
  }
};

template <typename Stored, float (*kConvert)(Stored)>
struct Floats {
  static constexpr uint kPerChunk = 16 / sizeof(Stored);
  static constexpr uint kSegmentBytes = gpu::kPanel * arith::kSegment * sizeof(Stored);
  static __device__ float element(const std::byte* segment, uint row, uint column) {
    const auto* values = reinterpret_cast<const Stored*>(segment);
    return kConvert(values[(column / kPerChunk * gpu::kPanel + row) * kPerChunk + column % kPerChunk]);
  }
};

__device__ float same(float value) {
  return value;
}
__device__ float from_half(__half value) {
  return __half2float(value);
}

/// x[t] = row tokens[t] of the table, if this piece of the table has it. Grid (segments, T), 256 threads.
template <typename Format>
__global__ void embed(const int* tokens, const std::byte* table, float* x, EmbedConstants c) {
  after_previous();
  const uint row = static_cast<uint>(tokens[blockIdx.y]) - c.first_row;
  if (row >= c.rows) return;
  const uint column = blockIdx.x * arith::kSegment + threadIdx.x;
  if (column >= c.columns) return;
  const auto* segment =
      table + (std::size_t{row / gpu::kPanel} * c.segments + blockIdx.x) * Format::kSegmentBytes;
  x[std::size_t{blockIdx.y} * c.stride + column] = Format::element(segment, row % gpu::kPanel, threadIdx.x);
}

/// One token, D256 floats of shared memory: all weigh and quantize four elements next to each other, and warp
/// 0 sums the squares. Grid (1, T).
__global__ void __launch_bounds__(kThreads)
    norm(const float* x, const float* weight, float* weighted, std::int8_t* quants, float* scales,
         float* factors, NormConstants c) {
  extern __shared__ __align__(16) float row[];
  after_previous();
  const std::size_t token = blockIdx.y;
  const auto* fours = reinterpret_cast<const float4*>(x + token * c.stride);
  const auto* weights = reinterpret_cast<const float4*>(weight);
  for (uint i = threadIdx.x; i < c.stride / 4; i += kThreads) {  // whole warps: a multiple of 64
    const float4 four = fours[i];
    const float4 by = __ldg(weights + i);
    reinterpret_cast<float4*>(row)[i] = four;
    const float values[4] = {multiply(four.x, by.x), multiply(four.y, by.y), multiply(four.z, by.z),
                             multiply(four.w, by.w)};
    const std::size_t at = token * c.stride + i * std::size_t{4};
    if ((c.write & gpu::kWriteFloats) != 0) {
      *reinterpret_cast<float4*>(weighted + at) = make_float4(values[0], values[1], values[2], values[3]);
    }
    if ((c.write & gpu::kWriteQuants) != 0) quantize_fours(values, quants + at, scales + at / arith::kBlock);
  }
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  float sum = 0.0F;
#pragma unroll 8
  for (uint i = threadIdx.x; i < c.columns; i += kWarp) sum = add(sum, multiply(row[i], row[i]));
  sum = tree_sum(sum);
  if (threadIdx.x == 0) {
    factors[token] = arith::reciprocal_sqrt(add(multiply(sum, c.inverse_length), c.epsilon));
  }
}

/// Grid (W256 / 256, T): a warp for each block of 32.
__global__ void quantize_vectors(const float* x, std::int8_t* quants, float* scales, QuantizeConstants c) {
  after_previous();
  const std::size_t first =
      blockIdx.y * std::size_t{c.stride} + blockIdx.x * kThreads + threadIdx.x / kWarp * kWarp;
  quantize_block(x[first + lane_index()], quants + first, scales + first / arith::kBlock);
}

/// Grid (ceil(F256 / 1024), T): a thread has four columns next to each other, eight threads a block of 32.
__global__ void __launch_bounds__(kThreads)
    swiglu(const float* gate_up, float* floats, std::int8_t* quants, float* scales, SwigluConstants c) {
  after_previous();
  const uint column = (blockIdx.x * kThreads + threadIdx.x) * 4;
  if (column / 256 * 256 >= c.stride) return;  // whole warps: 128 columns of 256
  const float* in = gate_up + blockIdx.y * std::size_t{c.in_stride};
  float gate[4] = {};
  float up[4] = {};
  if (column + 4 <= c.columns && c.up_offset % 4 == 0 && c.in_stride % 4 == 0) {
    const auto gates = *reinterpret_cast<const float4*>(in + column);
    const auto ups = *reinterpret_cast<const float4*>(in + c.up_offset + column);
    const float both[8] = {gates.x, gates.y, gates.z, gates.w, ups.x, ups.y, ups.z, ups.w};
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      gate[i] = both[i];
      up[i] = both[4 + i];
    }
  } else {
    for (uint i = 0; i < 4 && column + i < c.columns; ++i) {
      gate[i] = in[column + i];
      up[i] = in[c.up_offset + column + i];
    }
  }
  float values[4];
#pragma unroll
  for (uint i = 0; i < 4; ++i) values[i] = arith::swiglu(gate[i], up[i]);  // of zeros: zero
  const std::size_t at = blockIdx.y * std::size_t{c.stride} + column;
  if ((c.write & gpu::kWriteFloats) != 0) {
    *reinterpret_cast<float4*>(floats + at) = make_float4(values[0], values[1], values[2], values[3]);
  }
  if ((c.write & gpu::kWriteQuants) == 0) return;
  quantize_fours(values, quants + at, scales + at / arith::kBlock);
}

__global__ void add_branch(float* x, const float* branch, AddConstants c) {
  after_previous();
  const uint column = blockIdx.x * kThreads + threadIdx.x;
  if (column >= c.columns) return;
  const std::size_t at = blockIdx.y * std::size_t{c.stride} + column;
  x[at] = add(x[at], branch[at]);
}

__global__ void gather(const float* x, const uint* map, float* out, GatherConstants c) {
  after_previous();
  const uint column = blockIdx.x * kThreads + threadIdx.x;
  if (column >= c.columns) return;
  out[blockIdx.y * std::size_t{c.stride} + column] = x[map[blockIdx.y] * std::size_t{c.stride} + column];
}

__global__ void fill(uint* target, uint word, std::uint64_t count) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{kThreads} + threadIdx.x; i < count;
       i += std::uint64_t{gridDim.x} * kThreads) {
    target[i] = word;
  }
}

/// Grid (some, pieces).
__global__ void fetch(Pieces pieces) {
  after_previous();
  const Piece& piece = pieces.list[blockIdx.y];
  for (std::uint64_t i = blockIdx.x * std::uint64_t{kThreads} + threadIdx.x; i < piece.bytes / 4;
       i += std::uint64_t{gridDim.x} * kThreads) {
    static_cast<uint*>(piece.target)[i] = static_cast<const volatile uint*>(piece.source)[i];
  }
}

dim3 grid_of(const Command& command) {
  return {command.grid.x, command.grid.y, command.grid.z};
}

}  // namespace

Launch plan_embed(const Command& command) {
  const void* function = address_of(embed<Q8>);
  if (command.kernel == Kernel::embed_f32) function = address_of(embed<Floats<float, same>>);
  if (command.kernel == Kernel::embed_f16) function = address_of(embed<Floats<__half, from_half>>);
  if (command.kernel == Kernel::embed_bf16) function = address_of(embed<Floats<std::uint16_t, from_bf16>>);
  return {function, grid_of(command), dim3(arith::kSegment), 0, 3};
}

Launch plan_norm(const Command& command) {
  const auto& c = constants_of<NormConstants>(command);
  return {address_of(norm), grid_of(command), dim3(kThreads), static_cast<unsigned>(c.stride * sizeof(float)),
          6};
}

Launch plan_quantize(const Command& command) {
  return {address_of(quantize_vectors), grid_of(command), dim3(kThreads), 0, 3};
}

Launch plan_swiglu(const Command& command) {
  return {address_of(swiglu), dim3(gpu::divide_up(command.grid.x, 4), command.grid.y), dim3(kThreads), 0, 4};
}

Launch plan_add(const Command& command) {
  return {address_of(add_branch), grid_of(command), dim3(kThreads), 0, 2};
}

Launch plan_gather(const Command& command) {
  return {address_of(gather), grid_of(command), dim3(kThreads), 0, 3};
}

cudaError_t fill_words(void* target, std::uint32_t word, std::uint64_t count, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  fill<<<1024, kThreads, 0, stream>>>(static_cast<uint*>(target), word, count);
  return cudaGetLastError();
}

cudaError_t fetch_pieces(const Pieces& pieces, cudaStream_t stream) {
  std::uint64_t largest = 0;
  for (const Piece& piece : pieces.list) largest = largest > piece.bytes ? largest : piece.bytes;
  const std::uint64_t groups = (largest / 4 + kThreads - 1) / kThreads;
  if (groups == 0) return cudaSuccess;
  fetch<<<dim3(static_cast<unsigned>(groups < 64 ? groups : 64), kMostPieces), kThreads, 0, stream>>>(pieces);
  return cudaGetLastError();
}

}  // namespace inferno::cuda
