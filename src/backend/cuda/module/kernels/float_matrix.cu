// Float weights: products in float, 16 strided partial sums in a segment, a tree, segments in order.

#include "backend/cuda/module/kernels/common.cuh"

namespace inferno::cuda {
namespace {

using gpu::MatrixConstants;

constexpr unsigned kThreads = gpu::kMatvecThreads;
constexpr uint kWorkers = gpu::kMatvecWorkers;
constexpr uint kStride = arith::kFloatStride;
constexpr uint kTokensPerGroup = 16;  // of one workgroup, one after the other

/// 16 columns of a row from its panel's segment.
struct F32 {
  static constexpr uint kBytes = 4;
  static __device__ void load(const std::byte* segment, uint row, uint group, float (&w)[kStride]) {
    const auto* chunks = reinterpret_cast<const float4*>(segment) + group * 4 * gpu::kPanel + row;
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      const float4 four = __ldg(chunks + i * gpu::kPanel);
      w[4 * i] = four.x;
      w[4 * i + 1] = four.y;
      w[4 * i + 2] = four.z;
      w[4 * i + 3] = four.w;
    }
  }
};

template <bool kBrain>
struct F16 {
  static constexpr uint kBytes = 2;
  static __device__ float convert(uint bits) {
    if (kBrain) return __uint_as_float(bits << 16U);
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  }
  static __device__ void load(const std::byte* segment, uint row, uint group, float (&w)[kStride]) {
    const auto* chunks = reinterpret_cast<const uint4*>(segment) + group * 2 * gpu::kPanel + row;
#pragma unroll
    for (uint i = 0; i < 2; ++i) {
      const uint4 eight = __ldg(chunks + i * gpu::kPanel);
      const uint words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
      for (uint k = 0; k < 4; ++k) {
        w[8 * i + 2 * k] = convert(words[k] & 0xFFFFU);
        w[8 * i + 2 * k + 1] = convert(words[k] >> 16U);
      }
    }
  }
};

/// gpu::matvec_lanes, on the device.
__device__ uint workers_per_panel(uint segments) {
  uint lanes = 1;
  while (lanes < segments && lanes < kWorkers) lanes *= 2;
  return lanes;
}

/// Threads as in the matrix-vector kernel for integers. Grid (panels / those of a workgroup, tokens /
/// kTokensPerGroup).
template <typename Format>
__global__ void __launch_bounds__(kThreads) float_matrix(const std::byte* weights, const float* x,
                                                         const float* factors, float* y, MatrixConstants c) {
  after_previous();
  __shared__ float partial[kWorkers][gpu::kPanel];
  const uint row = threadIdx.x % gpu::kPanel;
  const uint worker = threadIdx.x / gpu::kPanel;
  const uint lanes = workers_per_panel(c.segments);
  const uint panel = blockIdx.x * (kWorkers / lanes) + worker / lanes;
  const bool exists = panel * gpu::kPanel < c.rows;
  const uint end = min((blockIdx.y + 1) * kTokensPerGroup, c.tokens);
  for (uint token = blockIdx.y * kTokensPerGroup; token < end; ++token) {
    float total = 0.0F;  // of each panel's first worker
    for (uint first = 0; first < c.segments; first += lanes) {
      const uint segment = first + worker % lanes;
      if (exists && segment < c.segments) {
        const auto* packed = weights + (std::size_t{panel} * c.segments + segment) * arith::kSegment *
                                           gpu::kPanel * Format::kBytes;
        const auto* vector = reinterpret_cast<const float4*>(x + (std::size_t{token} * c.segments + segment) *
                                                                     arith::kSegment);
        float sums[kStride] = {};
        for (uint group = 0; group < arith::kSegment / kStride; ++group) {
          float w[kStride];
          Format::load(packed, row, group, w);
#pragma unroll
          for (uint i = 0; i < 4; ++i) {
            const float4 four = vector[group * 4 + i];
            sums[4 * i] = add(sums[4 * i], multiply(w[4 * i], four.x));
            sums[4 * i + 1] = add(sums[4 * i + 1], multiply(w[4 * i + 1], four.y));
            sums[4 * i + 2] = add(sums[4 * i + 2], multiply(w[4 * i + 2], four.z));
            sums[4 * i + 3] = add(sums[4 * i + 3], multiply(w[4 * i + 3], four.w));
          }
        }
#pragma unroll
        for (uint half = kStride / 2; half > 0; half /= 2) {
#pragma unroll
          for (uint j = 0; j < half; ++j) sums[j] = add(sums[j], sums[j + half]);
        }
        partial[worker][row] = sums[0];
      }
      __syncthreads();
      if (worker % lanes == 0) {
        const uint count = min(lanes, c.segments - first);
        for (uint i = 0; i < count; ++i) total = add(total, partial[worker + i][row]);
      }
      __syncthreads();
    }
    const uint out = panel * gpu::kPanel + row;
    if (worker % lanes != 0 || out >= c.rows) continue;
    if (c.use_factors != 0) total = multiply(total, factors[token]);
    float& target = y[std::size_t{token} * c.y_stride + c.first_out + out];
    target = c.accumulate != 0 ? add(target, total) : total;
  }
}

}  // namespace

Launch plan_float_matrix(const Command& command) {
  const auto& c = constants_of<MatrixConstants>(command);
  const void* function = nullptr;
  switch (command.kernel) {
    case Kernel::matvec_f32:
    case Kernel::matmul_f32:
      function = address_of(float_matrix<F32>);
      break;
    case Kernel::matvec_f16:
    case Kernel::matmul_f16:
      function = address_of(float_matrix<F16<false>>);
      break;
    default:
      function = address_of(float_matrix<F16<true>>);
      break;
  }
  const uint panels_here = kWorkers / gpu::matvec_lanes(c.segments);
  const dim3 grid(gpu::divide_up(gpu::divide_up(c.rows, gpu::kPanel), panels_here),
                  gpu::divide_up(c.tokens, kTokensPerGroup));
  return {function, grid, dim3(kThreads), 0, 4};
}

}  // namespace inferno::cuda
