#pragma once

#include "backend/cpu/kernels/kernel_set.hpp"

/// The sets by name, for kernel_sets(); everybody else asks that. Each is made in the file of its name, which
/// is compiled for its instruction set.
namespace inferno::cpu {

#if defined(__x86_64__)
extern const KernelSet kAmx;
extern const KernelSet kAvx512Vnni;
extern const KernelSet kAvxVnni;
extern const KernelSet kAvx2;
extern const KernelSet kSse2;
#elif defined(__aarch64__)
extern const KernelSet kNeonDot;
extern const KernelSet kNeon;
#endif
extern const KernelSet kPlain;

}  // namespace inferno::cpu
