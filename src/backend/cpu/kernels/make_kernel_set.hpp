#pragma once

#include <string_view>

#include "backend/cpu/kernels/attention.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/kernels/matmul.hpp"
#include "backend/cpu/kernels/matmul_float.hpp"
#include "backend/cpu/kernels/vectors.hpp"

namespace inferno::cpu {

/// The kernels that follow from an instruction set's sixteen lanes.
template <class Isa>
constexpr KernelSet make_kernel_set(std::string_view name, std::string_view needs, bool (*supported)()) {
  using V = Vectors<Isa>;
  using A = Attention<Isa>;
  return {.name = name,
          .needs = needs,
          .supported = supported,
          .norm_quantize = V::norm_quantize,
          .norm_float = V::norm_float,
          .quantize = V::quantize,
          .swiglu = V::swiglu,
          .add = V::add,
          .matmul = Matmul<Isa>::matmul,
          .matmul_float = MatmulFloat<Isa>::matmul,
          .norm_rotate = V::norm_rotate,
          .quantize_query = V::quantize_query,
          .append_kv = V::append_kv,
          .scores = A::scores,
          .softmax = A::softmax,
          .quantize_weights = A::quantize_weights,
          .weigh_values = A::weigh_values,
          .scale_sums = A::scale_sums,
          .merge_splits = A::merge_splits};
}

}  // namespace inferno::cpu
