#include "backend/cpu/kernels/isa/plain.hpp"

#include "backend/cpu/kernels/make_kernel_set.hpp"
#include "backend/cpu/kernels/processor.hpp"
#include "backend/cpu/kernels/sets.hpp"

namespace inferno::cpu {

constinit const KernelSet kPlain = make_kernel_set<Plain>("plain", "nothing", every_processor);

}  // namespace inferno::cpu
