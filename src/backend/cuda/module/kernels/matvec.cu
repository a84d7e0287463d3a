// Packed int8 weights times few tokens: every weight is read once, and the reads are what takes the time.

#include "backend/cuda/module/kernels/common.cuh"

namespace inferno::cuda {
namespace {

using gpu::MatrixConstants;

constexpr unsigned kThreads = gpu::kMatvecThreads;
constexpr uint kWorkers = gpu::kMatvecWorkers;
constexpr uint kChunks = arith::kSegment / kChunk;

/// One row's weights of one segment.
struct Weights {
  int4 scales;  // eight halves
  int4 chunks[kChunks];

  __device__ void load(const std::byte* segment, uint row) {
    scales = __ldcs(reinterpret_cast<const int4*>(segment) + row);
    const auto* from = reinterpret_cast<const int4*>(segment + kScaleBytes) + row;
#pragma unroll
    for (uint i = 0; i < kChunks; ++i) chunks[i] = __ldcs(from + i * gpu::kPanel);
  }
};

/// The row's sums over the segment, for kTokens tokens. `quants` and `scales` point to the first token's part
/// of it.
template <unsigned kTokens>
__device__ void segment_sums(const Weights& weights, const std::int8_t* quants, const float* scales,
                             std::size_t stride, uint tokens, float (&sums)[kTokens]) {
  const auto* halves = reinterpret_cast<const __half*>(&weights.scales);
#pragma unroll
  for (float& sum : sums) sum = 0.0F;
#pragma unroll
  for (uint block = 0; block < kSegmentBlocks; ++block) {
    const float weight_scale = __half2float(halves[block]);
#pragma unroll
    for (unsigned t = 0; t < kTokens; ++t) {
      if (t >= tokens) break;
      const auto* x = reinterpret_cast<const int4*>(quants + t * stride) + block * 2;
      int dot = dot16(weights.chunks[2 * block], x[0], kDotStart);
      dot = dot16(weights.chunks[2 * block + 1], x[1], dot);
      const float scale = scales[t * (stride / arith::kBlock) + block];
      sums[t] = add(sums[t], multiply(multiply(dot_to_float(dot), weight_scale), scale));
    }
  }
}

/// Threads as kernels.hpp says: (worker, row of a panel), workers that share a panel take its segments in
/// turn, and their sums meet in shared memory to be added in order.
template <unsigned kTokens>
__global__ void __launch_bounds__(kThreads)
    matvec_q8(const std::byte* weights, const std::int8_t* quants, const float* scales, const float* factors,
              float* y, MatrixConstants c) {
  __shared__ float partial[kTokens][kWorkers][gpu::kPanel];
  __shared__ float totals[kTokens][kWorkers][gpu::kPanel];  // [token][panel of the workgroup][row]
  const uint row = threadIdx.x % gpu::kPanel;
  const uint worker = threadIdx.x / gpu::kPanel;
  const uint panels_here = kWorkers / c.lanes;
  const uint first_panel = blockIdx.x * panels_here;
  const uint panel = first_panel + worker / c.lanes;
  const std::size_t stride = std::size_t{c.segments} * arith::kSegment;
  const bool exists = panel * gpu::kPanel < c.rows;
  const uint outputs = c.tokens * panels_here * gpu::kPanel;

  // Nobody writes weights: the first ones come while the kernel before still runs.
  Weights packed;
  const auto segment_at = [&](uint segment) {
    return weights + (std::size_t{panel} * c.segments + segment) * kQ8SegmentBytes;
  };
  if (exists && worker % c.lanes < c.segments) packed.load(segment_at(worker % c.lanes), row);
  after_previous();

  for (uint first = 0; first < c.segments; first += c.lanes) {
    const uint segment = first + worker % c.lanes;
    if (exists && segment < c.segments) {
      if (first > 0) packed.load(segment_at(segment), row);
      float sums[kTokens];
      segment_sums<kTokens>(packed, quants + std::size_t{segment} * arith::kSegment,
                            scales + std::size_t{segment} * kSegmentBlocks, stride, c.tokens, sums);
#pragma unroll
      for (unsigned t = 0; t < kTokens; ++t) partial[t][worker][row] = sums[t];
    }
    __syncthreads();
    const uint count = min(c.lanes, c.segments - first);
    for (uint o = threadIdx.x; o < outputs; o += kThreads) {
      const uint r = o % gpu::kPanel;
      const uint p = o / gpu::kPanel % panels_here;
      const uint t = o / gpu::kPanel / panels_here;
      float total = first == 0 ? 0.0F : totals[t][p][r];
      for (uint i = 0; i < count; ++i) total = add(total, partial[t][p * c.lanes + i][r]);
      totals[t][p][r] = total;
    }
    __syncthreads();
  }

  for (uint o = threadIdx.x; o < outputs; o += kThreads) {
    const uint r = o % gpu::kPanel;
    const uint p = o / gpu::kPanel % panels_here;
    const uint t = o / gpu::kPanel / panels_here;
    const uint out = (first_panel + p) * gpu::kPanel + r;
    if (out >= c.rows) continue;
    float value = totals[t][p][r];
    if (c.use_factors != 0) value = multiply(value, factors[t]);
    float& target = y[std::size_t{t} * c.y_stride + c.first_out + out];
    target = c.accumulate != 0 ? add(target, value) : value;
  }
}

const void* function_for(uint tokens) {
  if (tokens <= 1) return address_of(matvec_q8<1>);
  if (tokens <= 2) return address_of(matvec_q8<2>);
  if (tokens <= 4) return address_of(matvec_q8<4>);
  return address_of(matvec_q8<8>);
}

}  // namespace

Launch plan_matvec(const Command& command) {
  const auto& c = constants_of<MatrixConstants>(command);
  return {function_for(c.tokens), dim3(command.grid.x), dim3(kThreads), 0, 5};
}

}  // namespace inferno::cuda
