#ifndef INFERNO_SAMPLING_PHILOX_HPP_  // GLSL knows no #pragma once
#define INFERNO_SAMPLING_PHILOX_HPP_

#include "sampling/portable.hpp"

// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011): random
// words as a function of a key and a counter, so that there is no state to carry along, to save with a
// paused sequence, or to keep apart between rows of a batch.

INFERNO_PORTABLE_BEGIN(sampling)

/// Four words: a counter, or what it is turned into.
struct Words4 {
  uint a;
  uint b;
  uint c;
  uint d;
};

INFERNO_PORTABLE Words4 philox_round(Words4 counter, uint key0, uint key1) {
  Words4 next = counter;
  next.a = multiply_high(0xCD9E8D57U, counter.c) ^ counter.b ^ key0;
  next.b = 0xCD9E8D57U * counter.c;
  next.c = multiply_high(0xD2511F53U, counter.a) ^ counter.d ^ key1;
  next.d = 0xD2511F53U * counter.a;
  return next;
}

INFERNO_PORTABLE Words4 philox(Words4 counter, uint key0, uint key1) {
  for (int i = 0; i < 10; ++i) {
    counter = philox_round(counter, key0, key1);
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

INFERNO_PORTABLE_END

#endif  // INFERNO_SAMPLING_PHILOX_HPP_
