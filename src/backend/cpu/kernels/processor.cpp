#include "backend/cpu/kernels/processor.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace inferno::cpu {

#if defined(__x86_64__)
// __builtin_cpu_supports asks the operating system's side too: whether it saves the wider registers.
bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("f16c") != 0;
}
bool has_avx_vnni() {
  if (!has_avx2()) return false;
  // Bit 4 of EAX of leaf 7.1; compilers before GCC 13 and clang 17 have no name for it.
  constexpr unsigned kAvxVnni = 1U << 4U;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnni) != 0;
}
#endif

bool every_processor() {
  return true;
}

}  // namespace inferno::cpu
