#pragma once

#include <cstdint>
#include <string>

namespace inferno::bench {

/// What the machine's processors can do at best, measured: the denominators of every share.
struct MachineLimits {
  std::uint32_t threads = 1;       ///< that were used
  std::uint64_t buffer_bytes = 0;  ///< that were read, over and over
  double read_gb_per_second = 0;   ///< 1e9 bytes
  double int8_gops = 0;            ///< dot products of int8 pairs: a multiply and an add are two operations
  double fp32_gflops = 0;          ///< fused multiply-adds in float32: two operations each
  std::string int8_kernel;         ///< the instructions behind the figure: "AVX-512 VNNI"
  std::string fp32_kernel;
};

/// Reads `buffer_bytes` (at least 1 MiB, at most 1 GiB: beyond that no cache helps) with all `threads`, then
/// runs register-only loops. The best of several runs each: a limit is what was reached once. Takes about a
/// second. Throws UsageError for 0 or more than 4,096 threads, Error if they or the buffer cannot be had.
MachineLimits measure_machine(std::uint32_t threads, std::uint64_t buffer_bytes);

/// The higher of each figure: two measurements of one machine, before and after a benchmark.
MachineLimits best_of(const MachineLimits& a, const MachineLimits& b);

}  // namespace inferno::bench
