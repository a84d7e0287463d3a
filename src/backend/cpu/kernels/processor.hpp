#pragma once

/// What this processor, and the operating system on it, can run. Compiled for the oldest processor.
namespace inferno::cpu {

#if defined(__x86_64__)
bool has_avx512_vnni();
bool has_avx_vnni();
bool has_avx2();
#endif
bool every_processor();

}  // namespace inferno::cpu
