#include "backend/cpu/kernels/isa/avx512.hpp"
#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {

constinit const KernelSet kAvx512Vnni =
    make_kernel_set<Avx512>("avx512-vnni", "AVX-512 F, BW, VL and VNNI", has_avx512_vnni);

}  // namespace inferno::cpu
