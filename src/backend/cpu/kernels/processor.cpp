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
namespace {

struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

/// What CPUID says; zeros for a leaf that this processor does not have.
Leaf cpuid(unsigned leaf, unsigned subleaf) {
  Leaf result;
  __get_cpuid_count(leaf, subleaf, &result.eax, &result.ebx, &result.ecx, &result.edx);
  return result;
}

bool all_set(unsigned value, unsigned bits) {
  return (value & bits) == bits;
}

// Features that compilers name differently, or not at all, in __builtin_cpu_supports.
constexpr unsigned kF16c = 1U << 29U;          // leaf 1, ECX
constexpr unsigned kAvxVnni = 1U << 4U;        // leaf 7.1, EAX
constexpr unsigned kTilesAndInt8 = 3U << 24U;  // leaf 7, EDX

}  // namespace

// __builtin_cpu_supports asks the operating system's side too: whether it saves the wider registers.
bool has_avx2() {
  return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         all_set(cpuid(1, 0).ecx, kF16c);
}

bool has_avx_vnni() {
  return has_avx2() && all_set(cpuid(7, 1).eax, kAvxVnni);
}

bool has_avx512_vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}

bool has_amx() {
#if defined(__linux__)
  if (!has_avx512_vnni() || !all_set(cpuid(7, 0).edx, kTilesAndInt8)) return false;
  // Linux gives the tiles' 8 KB of state to processes that ask, for all their threads.
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
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

#if defined(__x86_64__)
const bool kPrefetchStreams = __builtin_cpu_is("amd") == 0;
#else
const bool kPrefetchStreams = true;
#endif

}  // namespace inferno::cpu
