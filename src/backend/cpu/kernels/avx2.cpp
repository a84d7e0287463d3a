#include "backend/cpu/kernels/isa/avx2.hpp"

#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {

constinit const KernelSet kAvx2 = make_kernel_set<Avx2>("avx2", "AVX2, FMA and F16C", has_avx2);

}  // namespace inferno::cpu
