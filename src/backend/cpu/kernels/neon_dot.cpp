#include "backend/cpu/kernels/isa/neon_dot.hpp"

#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {

constinit const KernelSet kNeonDot =
    make_kernel_set<NeonDot>("neon-dot", "NEON with dot products", has_neon_dot);

}  // namespace inferno::cpu
