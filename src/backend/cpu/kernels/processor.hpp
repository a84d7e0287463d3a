#pragma once

/// What this processor, and the operating system on it, can run. Compiled for the oldest processor.
namespace inferno::cpu {

#if defined(__x86_64__)
/// Asks the operating system to let this process use the tile registers.
bool has_amx();
bool has_avx512_vnni();
bool has_avx_vnni();
bool has_avx2();
#elif defined(__aarch64__)
bool has_neon_dot();
#endif
bool every_processor();

}  // namespace inferno::cpu
