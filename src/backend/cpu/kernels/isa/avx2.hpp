#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "backend/cpu/kernels/inline.hpp"

namespace inferno::cpu {
namespace {

/// Sixteen lanes in two registers, for AVX2, FMA and F16C. See isa/README.md for what a kernel may ask of an
/// instruction set.
struct Avx2 {
  struct Floats {
    __m256 low, high;
  };
  struct Ints {
    __m256i low, high;
  };

  // Floats.
  INFERNO_INLINE static Floats zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  INFERNO_INLINE static Floats broadcast(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  INFERNO_INLINE static Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  INFERNO_INLINE static void store(float* p, Floats x) {
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
  }
  INFERNO_INLINE static Floats add(Floats a, Floats b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  INFERNO_INLINE static Floats subtract(Floats a, Floats b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  INFERNO_INLINE static Floats multiply(Floats a, Floats b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  INFERNO_INLINE static Floats multiply_add(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  // The instructions return their second operand if either is NaN, or if both are zero.
  INFERNO_INLINE static Floats larger(Floats a, Floats b) {
    return {_mm256_max_ps(b.low, a.low), _mm256_max_ps(b.high, a.high)};
  }
  INFERNO_INLINE static Floats smaller(Floats a, Floats b) {
    return {_mm256_min_ps(b.low, a.low), _mm256_min_ps(b.high, a.high)};
  }
  INFERNO_INLINE static float first(Floats x) { return _mm256_cvtss_f32(x.low); }
  INFERNO_INLINE static float tree_sum(Floats x) {
    const __m256 eight = _mm256_add_ps(x.low, x.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  INFERNO_INLINE static float largest_lane(Floats x) {
    const __m256 eight = _mm256_max_ps(x.low, x.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  INFERNO_INLINE static Floats load_half(const std::byte* p) {
    return {_mm256_cvtph_ps(load_eight(p)), _mm256_cvtph_ps(load_eight(p + 16))};
  }
  INFERNO_INLINE static Floats load_bfloat(const std::byte* p) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_eight(p)), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_eight(p + 16)), 16))};
  }

  // Integers.
  INFERNO_INLINE static Ints bits(Floats x) {
    return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)};
  }
  INFERNO_INLINE static Floats from_bits(Ints x) {
    return {_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)};
  }
  INFERNO_INLINE static Ints broadcast_int(std::int32_t x) {
    return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
  }
  INFERNO_INLINE static Ints load_ints(const std::int32_t* p) {
    return {load_register(p), load_register(p + 8)};
  }
  INFERNO_INLINE static void store_ints(std::int32_t* p, Ints x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.high);
  }
  INFERNO_INLINE static Ints add(Ints a, Ints b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
  }
  INFERNO_INLINE static Ints subtract(Ints a, Ints b) {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
  }
  INFERNO_INLINE static Ints bit_and(Ints a, Ints b) {
    return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
  }
  INFERNO_INLINE static Ints larger(Ints a, Ints b) {
    return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_left(Ints x) {
    return {_mm256_slli_epi32(x.low, kBits), _mm256_slli_epi32(x.high, kBits)};
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_right(Ints x) {
    return {_mm256_srli_epi32(x.low, kBits), _mm256_srli_epi32(x.high, kBits)};
  }
  INFERNO_INLINE static Floats to_float(Ints x) {
    return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)};
  }
  INFERNO_INLINE static Floats select_less(Ints a, Ints b, Floats then, Floats otherwise) {
    const Ints less{_mm256_cmpgt_epi32(b.low, a.low), _mm256_cmpgt_epi32(b.high, a.high)};
    return {_mm256_blendv_ps(otherwise.low, then.low, _mm256_castsi256_ps(less.low)),
            _mm256_blendv_ps(otherwise.high, then.high, _mm256_castsi256_ps(less.high))};
  }
  INFERNO_INLINE static std::int32_t largest_lane(Ints x) {
    const __m256i eight = _mm256_max_epi32(x.low, x.high);
    const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  INFERNO_INLINE static std::int32_t sum_lanes(Ints x) {
    const __m256i eight = _mm256_add_epi32(x.low, x.high);
    const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  INFERNO_INLINE static void store_bytes(std::int8_t* p, Ints x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(narrow(x.low), narrow(x.high)));
  }

  // Sums of products of weights (or keys) with activations (or queries). The processor multiplies unsigned by
  // signed bytes and adds pairs in 16 bits with saturation: |weight| (up to 128) times the activation (up to
  // 127) with the weight's sign stays below 2^15 for two, weight + 128 would not.
  using Dots = Ints;
  struct Weights {
    Ints magnitudes, signs;
  };
  struct Activations {
    __m256i v;
  };
  static constexpr std::int32_t kWeightBias = 0;
  static constexpr bool kFusedScale = true;
  static constexpr std::size_t kGroups = 1;

  INFERNO_INLINE static Dots start(const std::int32_t* offset) { return broadcast_int(*offset); }
  INFERNO_INLINE static Weights load_weights(const std::uint8_t* p) {
    const __m256i bias = _mm256_set1_epi8(-128);
    const Ints signs{_mm256_xor_si256(load_register(p), bias), _mm256_xor_si256(load_register(p + 32), bias)};
    return {{_mm256_abs_epi8(signs.low), _mm256_abs_epi8(signs.high)}, signs};
  }
  INFERNO_INLINE static Activations load_activations(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return {_mm256_set1_epi32(four)};
  }
  INFERNO_INLINE static Dots accumulate(Dots dots, Weights weights, Activations x) {
    return {_mm256_add_epi32(dots.low, quad_dot(weights.magnitudes.low, weights.signs.low, x.v)),
            _mm256_add_epi32(dots.high, quad_dot(weights.magnitudes.high, weights.signs.high, x.v))};
  }
  INFERNO_INLINE static Ints finish(Dots dots) { return dots; }

  // Sums of attention weights of 15 bits with values: both as int16, the four positions of a lane as pairs
  // (0, 2) and (1, 3), which shifts make of bytes.
  struct ValueSums {
    Ints sums;
  };
  struct ValueWeights {
    __m256i even, odd;
  };
  struct Values {
    Ints even, odd;
  };
  static constexpr std::size_t kValueVectors = 1;
  static constexpr std::size_t kWeightBytes = sizeof(std::int16_t);  // from position to position

  INFERNO_INLINE static void store_weights(std::byte* integers, std::size_t position, const Ints (&q)[4]) {
    auto* target = reinterpret_cast<__m128i*>(integers + position * kWeightBytes);
    for (std::size_t i = 0; i < 4; ++i) {
      _mm_storeu_si128(target + 2 * i, narrow(q[i].low));
      _mm_storeu_si128(target + 2 * i + 1, narrow(q[i].high));
    }
  }
  INFERNO_INLINE static ValueSums no_values() { return {broadcast_int(0)}; }
  INFERNO_INLINE static Values load_values(const std::int8_t* p) {
    const Ints bytes{load_register(p), load_register(p + 32)};
    return {{_mm256_srai_epi16(_mm256_slli_epi16(bytes.low, 8), 8),
             _mm256_srai_epi16(_mm256_slli_epi16(bytes.high, 8), 8)},
            {_mm256_srai_epi16(bytes.low, 8), _mm256_srai_epi16(bytes.high, 8)}};
  }
  INFERNO_INLINE static ValueWeights load_value_weights(const std::byte* p, std::size_t count) {
    long long four = 0;
    __builtin_memcpy(&four, p, count * kWeightBytes);
    const __m256i all = _mm256_set1_epi64x(four);
    return {_mm256_shuffle_epi8(all, _mm256_set1_epi32(0x05040100)),
            _mm256_shuffle_epi8(all, _mm256_set1_epi32(0x07060302))};
  }
  INFERNO_INLINE static ValueSums weigh(ValueSums sums, ValueWeights weights, Values values) {
    const __m256i low = _mm256_add_epi32(_mm256_madd_epi16(values.even.low, weights.even),
                                         _mm256_madd_epi16(values.odd.low, weights.odd));
    const __m256i high = _mm256_add_epi32(_mm256_madd_epi16(values.even.high, weights.even),
                                          _mm256_madd_epi16(values.odd.high, weights.odd));
    return {{_mm256_add_epi32(sums.sums.low, low), _mm256_add_epi32(sums.sums.high, high)}};
  }
  INFERNO_INLINE static Ints finish(ValueSums sums) { return sums.sums; }

  INFERNO_INLINE static void prefetch_far(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
  }
  INFERNO_INLINE static void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }

  // Shapes: see matmul.hpp and attention.hpp.
  static constexpr std::size_t kTileTokens = 6;
  static constexpr std::size_t kMatmulTokens = 3;
  static constexpr std::size_t kMatmulPanels = 1;
  static constexpr std::size_t kMatmulFewTokens = 3;
  static constexpr std::size_t kFloatRows = 2;
  static constexpr std::size_t kFloatTokens = 2;
  static constexpr std::size_t kScoreGroups = 1;
  static constexpr std::size_t kScoreHeads = 3;
  static constexpr std::size_t kValueHeads = 3;

 protected:
  INFERNO_INLINE static __m256i load_register(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  INFERNO_INLINE static __m128i load_eight(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  /// Eight lanes that fit int16.
  INFERNO_INLINE static __m128i narrow(__m256i x) {
    return _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  }
  INFERNO_INLINE static __m256i quad_dot(__m256i magnitudes, __m256i signs, __m256i x) {
    const __m256i pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(x, signs));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
};

}  // namespace
}  // namespace inferno::cpu
