#include "backend/gpu/kernels.hpp"

#include <array>

namespace inferno::gpu {
namespace {

struct KernelInfo {
  std::string_view name;
  std::uint32_t bindings;
  std::uint32_t constant_bytes;
};

constexpr std::array<KernelInfo, kKernelCount> kKernels = {{
    {"embed_q8", 3, sizeof(EmbedConstants)},
    {"embed_f32", 3, sizeof(EmbedConstants)},
    {"embed_f16", 3, sizeof(EmbedConstants)},
    {"embed_bf16", 3, sizeof(EmbedConstants)},
    {"norm", 6, sizeof(NormConstants)},
    {"quantize", 3, sizeof(QuantizeConstants)},
    {"matvec_q8", 5, sizeof(MatrixConstants)},
    {"matmul_q8", 5, sizeof(MatrixConstants)},
    {"matmul_swiglu_q8", 7, sizeof(MatmulSwigluConstants)},
    {"norm_matvec_q8", 4, sizeof(NormMatrixConstants)},
    {"norm_swiglu_q8", 4, sizeof(NormSwigluConstants)},
    {"quantize_matvec_q8", 3, sizeof(QuantizeMatrixConstants)},
    {"matvec_f32", 4, sizeof(MatrixConstants)},
    {"matvec_f16", 4, sizeof(MatrixConstants)},
    {"matvec_bf16", 4, sizeof(MatrixConstants)},
    {"matmul_f32", 4, sizeof(MatrixConstants)},
    {"matmul_f16", 4, sizeof(MatrixConstants)},
    {"matmul_bf16", 4, sizeof(MatrixConstants)},
    {"prepare_heads", 9, sizeof(HeadConstants)},
    {"attend", 7, sizeof(AttendConstants)},
    {"merge", 6, sizeof(MergeConstants)},
    {"attend_one", 14, sizeof(AttendOneConstants)},
    {"attend_one_128", 14, sizeof(AttendOneConstants)},
    {"swiglu", 4, sizeof(SwigluConstants)},
    {"add", 2, sizeof(AddConstants)},
    {"gather", 3, sizeof(GatherConstants)},
    {"argmax_chunks", 2, sizeof(ArgmaxConstants)},
    {"argmax", 2, sizeof(ArgmaxConstants)},
    {"adjust", 5, sizeof(SampleConstants)},
    {"sample", 6, sizeof(SampleConstants)},
    {"advance", 10, sizeof(AdvanceConstants)},
    {"measure_read", 2, sizeof(MeasureConstants)},
    {"measure_int8", 1, sizeof(MeasureConstants)},
    {"measure_fp32", 1, sizeof(MeasureConstants)},
}};

const KernelInfo& info(Kernel kernel) {
  return kKernels[static_cast<std::size_t>(kernel)];
}

}  // namespace

std::string_view kernel_name(Kernel kernel) {
  return info(kernel).name;
}

std::uint32_t kernel_bindings(Kernel kernel) {
  return info(kernel).bindings;
}

std::uint32_t kernel_constant_bytes(Kernel kernel) {
  return info(kernel).constant_bytes;
}

}  // namespace inferno::gpu
