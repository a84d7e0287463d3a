#include "backend/cpu/kernels/isa/neon.hpp"

#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {

constinit const KernelSet kNeon = make_kernel_set<Neon>("neon", "NEON", every_processor);

}  // namespace inferno::cpu
