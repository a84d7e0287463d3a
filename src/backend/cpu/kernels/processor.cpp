#include "backend/cpu/kernels/processor.hpp"

namespace inferno::cpu {

#if defined(__x86_64__)
// __builtin_cpu_supports asks the operating system's side too: whether it saves the wider registers.
bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512vnni") != 0;
}
#endif

bool has_everything_plain_needs() {
  return true;
}

}  // namespace inferno::cpu
