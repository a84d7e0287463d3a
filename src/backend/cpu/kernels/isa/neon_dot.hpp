#pragma once

#include "backend/cpu/kernels/isa/neon.hpp"

namespace inferno::cpu {
namespace {

/// NEON with the dot products of int8 that came with ARMv8.2.
struct NeonDot : Neon {
  using Dots = Ints;
  using Weights = Bytes;
  struct Activations {
    int8x16_t v;
  };
  static constexpr std::size_t kGroups = 1;

  INFERNO_INLINE static Dots start(const std::int32_t* offset) { return broadcast_int(*offset); }
  INFERNO_INLINE static Weights load_weights(const std::uint8_t* p) { return load_signed(p); }
  INFERNO_INLINE static Activations load_activations(const std::int8_t* p) { return {load_quad(p)}; }
  INFERNO_INLINE static Dots accumulate(Dots dots, const Weights& weights, Activations x) {
    return each<Ints>(
        [&](auto i) INFERNO_INLINE_LAMBDA { return vdotq_s32(dots.v[i.value], weights.v[i.value], x.v); });
  }
  using Neon::finish;
  INFERNO_INLINE static Ints finish(const Dots& dots) { return dots; }

  static constexpr std::size_t kMatmulTokens = 3;
  static constexpr std::size_t kMatmulFewTokens = 3;
  static constexpr std::size_t kScoreHeads = 3;
};

}  // namespace
}  // namespace inferno::cpu
