#pragma once

#include <cstddef>

// What the peak loops of all processors share. For their source files only: they end with #undef of what they
// define here.

namespace inferno::bench {

/// Independent chains: more than latency x throughput of a multiply-add anywhere (4 cycles x 2 per cycle),
/// few enough for the registers of the older levels.
inline constexpr int kChains = 12;

/// The last kernel of each list runs everywhere.
inline bool always() {
  return true;
}

}  // namespace inferno::bench

// The chains are named variables, not an array: GCC 12 keeps an array in memory, and the loop then measures
// loads and stores.
#define INFERNO_EACH_CHAIN(DO) \
  DO(s0) DO(s1) DO(s2) DO(s3) DO(s4) DO(s5) DO(s6) DO(s7) DO(s8) DO(s9) DO(s10) DO(s11)
#define INFERNO_CHAINS_OF(Type, zero) \
  Type s0 = zero;                     \
  Type s1 = zero;                     \
  Type s2 = zero;                     \
  Type s3 = zero;                     \
  Type s4 = zero;                     \
  Type s5 = zero;                     \
  Type s6 = zero;                     \
  Type s7 = zero;                     \
  Type s8 = zero;                     \
  Type s9 = zero;                     \
  Type s10 = zero;                    \
  Type s11 = zero;
