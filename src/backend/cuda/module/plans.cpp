#include "backend/cuda/module/plans.hpp"

namespace inferno::cuda {

using gpu::Kernel;

Launch plan(const Command& command, unsigned shared_limit) {
  switch (command.kernel) {
    case Kernel::embed_q8:
    case Kernel::embed_f32:
    case Kernel::embed_f16:
    case Kernel::embed_bf16:
      return plan_embed(command);
    case Kernel::norm:
      return plan_norm(command);
    case Kernel::quantize:
      return plan_quantize(command);
    case Kernel::matvec_q8:
      return plan_matvec(command);
    case Kernel::matmul_q8:
      return plan_matmul(command, shared_limit);
    case Kernel::matmul_swiglu_q8:
      return plan_matmul_swiglu(command, shared_limit);
    case Kernel::matvec_f32:
    case Kernel::matvec_f16:
    case Kernel::matvec_bf16:
    case Kernel::matmul_f32:
    case Kernel::matmul_f16:
    case Kernel::matmul_bf16:
      return plan_float_matrix(command);
    case Kernel::prepare_heads:
      return plan_heads(command);
    case Kernel::attend:
      return plan_attend(command, shared_limit);
    case Kernel::merge:
      return plan_merge(command);
    case Kernel::swiglu:
      return plan_swiglu(command);
    case Kernel::add:
      return plan_add(command);
    case Kernel::gather:
      return plan_gather(command);
    case Kernel::argmax_chunks:
    case Kernel::argmax:
      return plan_argmax(command);
    case Kernel::adjust:
    case Kernel::sample:
    case Kernel::advance:
      return plan_sampling(command);
    case Kernel::measure_read:
    case Kernel::measure_int8:
    case Kernel::measure_fp32:
      return plan_measure(command);
    case Kernel::norm_matvec_q8:
    case Kernel::norm_swiglu_q8:
    case Kernel::quantize_matvec_q8:
    case Kernel::attend_one:
    case Kernel::attend_one_128:
      break;  // the persistent kernel does all of that: these are not there
  }
  return {};
}

}  // namespace inferno::cuda
