#include "backend/cpu/kernels/isa/sse2.hpp"

#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {

constinit const KernelSet kSse2 = make_kernel_set<Sse2>("sse2", "SSE2", every_processor);

}  // namespace inferno::cpu
