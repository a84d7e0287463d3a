#pragma once

#include "backend/cpu/kernels/isa/avx2.hpp"

namespace inferno::cpu {
namespace {

/// AVX2 with the dot products of VNNI: what client processors without AVX-512 have.
struct AvxVnni : Avx2 {
  using Weights = Ints;
  static constexpr std::int32_t kWeightBias = 128;

  INFERNO_INLINE static Weights load_weights(const std::uint8_t* p) {
    return {load_register(p), load_register(p + 32)};
  }
  INFERNO_INLINE static Dots accumulate(Dots dots, Weights weights, Activations x) {
    return {_mm256_dpbusd_avx_epi32(dots.low, weights.low, x.v),
            _mm256_dpbusd_avx_epi32(dots.high, weights.high, x.v)};
  }
};

}  // namespace
}  // namespace inferno::cpu
