#include "backend/cpu/kernels/isa/amx.hpp"

#include "backend/cpu/kernels/amx_attention.hpp"
#include "backend/cpu/kernels/amx_matmul.hpp"
#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {
namespace {

constexpr KernelSet with_tiles(KernelSet set) {
  set.matmul = AmxMatmul<Amx>::matmul;
  set.scores = AmxAttention<Amx>::scores;
  set.weigh_values = AmxAttention<Amx>::weigh_values;
  return set;
}

}  // namespace

constinit const KernelSet kAmx = with_tiles(make_kernel_set<Amx>(
    "amx", "AMX with int8, AVX-512 F, BW, VL and VNNI, and an operating system that lets programs use them",
    has_amx));

}  // namespace inferno::cpu
