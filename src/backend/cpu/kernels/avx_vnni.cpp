#include "backend/cpu/kernels/isa/avx_vnni.hpp"

#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {

constinit const KernelSet kAvxVnni =
    make_kernel_set<AvxVnni>("avx-vnni", "AVX-VNNI, AVX2, FMA and F16C", has_avx_vnni);

}  // namespace inferno::cpu
