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

/// Whether kernels should prefetch what they read once and in order. Intel's cores want it. On AMD's (seen on
/// Zen 4) a prefetch takes one of the first-level cache's few miss buffers, which loads and the hardware's
/// own prefetcher use better: with it a matrix-vector product reads 18 GB/s on a core, without it 30.
extern const bool kPrefetchStreams;

}  // namespace inferno::cpu
