#include "backend/cpu/kernels/processor.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__APPLE__)
#include <cstddef>
#include <sys/sysctl.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace inferno::cpu {

#if defined(__x86_64__)
// __builtin_cpu_supports asks the operating system's side too: whether it saves the wider registers.
bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}
bool has_amx() {
#if defined(__linux__)
  if (!has_avx512_vnni()) return false;
  // Bits 24 (tiles) and 25 (int8) of EDX of leaf 7; compilers differ in their names for them.
  constexpr unsigned kTilesAndInt8 = 3U << 24U;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTilesAndInt8) != kTilesAndInt8) {
    return false;
  }
  // Linux gives the tiles' 8 KB of state to processes that ask, for all their threads.
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
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
#elif defined(__APPLE__) && defined(__aarch64__)
bool has_neon_dot() {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &value, &size, nullptr, 0) == 0 && value != 0;
}
#elif defined(__aarch64__)
bool has_neon_dot() {
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}
#endif

bool every_processor() {
  return true;
}

}  // namespace inferno::cpu
