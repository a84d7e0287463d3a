#pragma once

#include <cstddef>

#include "backend/cpu/kernels/inline.hpp"

namespace inferno::cpu {

/// A number that is part of the type.
template <std::size_t kValue>
struct Index {
  static constexpr std::size_t value = kValue;
};

/// body(Index<0>), body(Index<1>), ..., body(Index<kCount - 1>), all inlined: what stands in arrays indexed
/// by them stands in registers. Compilers unroll loops of this length only when they feel like it.
template <std::size_t kCount, std::size_t kFirst = 0, class Body>
INFERNO_INLINE void unroll(const Body& body) {
  if constexpr (kFirst < kCount) {
    body(Index<kFirst>{});
    unroll<kCount, kFirst + 1>(body);
  }
}

// What the lambdas given to unroll carry, so that no function is left of them.
#define INFERNO_INLINE_LAMBDA __attribute__((always_inline))

}  // namespace inferno::cpu
