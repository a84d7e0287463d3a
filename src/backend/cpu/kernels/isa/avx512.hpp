#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "backend/cpu/kernels/inline.hpp"

// Each file that includes this is compiled for AVX-512 F, BW, VL and VNNI, and gets types of its own: what is
// built from them cannot be mistaken for what another file builds.
namespace inferno::cpu {
namespace {

/// Sixteen lanes in one register. See isa/README.md for what a kernel may ask of an instruction set.
struct Avx512 {
  struct Floats {
    __m512 v;
  };
  struct Ints {
    __m512i v;
  };

  // Floats.
  INFERNO_INLINE static Floats zero() { return {_mm512_setzero_ps()}; }
  INFERNO_INLINE static Floats broadcast(float x) { return {_mm512_set1_ps(x)}; }
  INFERNO_INLINE static Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
  INFERNO_INLINE static void store(float* p, Floats x) { _mm512_storeu_ps(p, x.v); }
  INFERNO_INLINE static Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
  INFERNO_INLINE static Floats subtract(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
  INFERNO_INLINE static Floats multiply(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
  // The instructions return their second operand if either is NaN, or if both are zero.
  INFERNO_INLINE static Floats larger(Floats a, Floats b) { return {_mm512_max_ps(b.v, a.v)}; }
  INFERNO_INLINE static Floats smaller(Floats a, Floats b) { return {_mm512_min_ps(b.v, a.v)}; }
  INFERNO_INLINE static float first(Floats x) { return _mm512_cvtss_f32(x.v); }
  INFERNO_INLINE static float tree_sum(Floats x) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v),
                                       _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x.v), 1)));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  INFERNO_INLINE static float largest_lane(Floats x) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v),
                                       _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x.v), 1)));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  INFERNO_INLINE static Floats load_half(const std::byte* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  INFERNO_INLINE static Floats load_bfloat(const std::byte* p) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16))};
  }

  // Integers.
  INFERNO_INLINE static Ints bits(Floats x) { return {_mm512_castps_si512(x.v)}; }
  INFERNO_INLINE static Floats from_bits(Ints x) { return {_mm512_castsi512_ps(x.v)}; }
  INFERNO_INLINE static Ints broadcast_int(std::int32_t x) { return {_mm512_set1_epi32(x)}; }
  INFERNO_INLINE static Ints load_ints(const std::int32_t* p) { return {_mm512_loadu_si512(p)}; }
  INFERNO_INLINE static void store_ints(std::int32_t* p, Ints x) { _mm512_storeu_si512(p, x.v); }
  INFERNO_INLINE static Ints add(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
  INFERNO_INLINE static Ints subtract(Ints a, Ints b) { return {_mm512_sub_epi32(a.v, b.v)}; }
  INFERNO_INLINE static Ints bit_and(Ints a, Ints b) { return {_mm512_and_si512(a.v, b.v)}; }
  INFERNO_INLINE static Ints larger(Ints a, Ints b) { return {_mm512_max_epi32(a.v, b.v)}; }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_left(Ints x) {
    return {_mm512_slli_epi32(x.v, kBits)};
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_right(Ints x) {
    return {_mm512_srli_epi32(x.v, kBits)};
  }
  INFERNO_INLINE static Floats to_float(Ints x) { return {_mm512_cvtepi32_ps(x.v)}; }
  INFERNO_INLINE static Floats select_less(Ints a, Ints b, Floats then, Floats otherwise) {
    return {_mm512_mask_blend_ps(_mm512_cmplt_epi32_mask(a.v, b.v), otherwise.v, then.v)};
  }
  INFERNO_INLINE static std::int32_t largest_lane(Ints x) { return _mm512_reduce_max_epi32(x.v); }
  INFERNO_INLINE static std::int32_t sum_lanes(Ints x) { return _mm512_reduce_add_epi32(x.v); }
  INFERNO_INLINE static void store_bytes(std::int8_t* p, Ints x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
  }

  // Sums of products of weights (or keys) with activations (or queries).
  using Dots = Ints;
  using Weights = Ints;
  using Activations = Ints;
  static constexpr std::int32_t kWeightBias = 128;
  static constexpr bool kFusedScale = true;
  static constexpr std::size_t kGroups = 1;

  INFERNO_INLINE static Dots start(const std::int32_t* offset) { return broadcast_int(*offset); }
  INFERNO_INLINE static Weights load_weights(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  INFERNO_INLINE static Activations load_activations(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return broadcast_int(four);
  }
  INFERNO_INLINE static Dots accumulate(Dots dots, Weights weights, Activations activations) {
    return {_mm512_dpbusd_epi32(dots.v, weights.v, activations.v)};
  }
  INFERNO_INLINE static Ints finish(Dots dots) { return dots; }
  INFERNO_INLINE static Floats multiply_add(Floats a, Floats b, Floats c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }

  // Sums of attention weights of 15 bits with values: the weights are kept as two planes of bytes, the high
  // eight bits and the low seven.
  struct ValueSums {
    __m512i high;
    __m512i low;
  };
  struct ValueWeights {
    __m512i high;
    __m512i low;
  };
  static constexpr std::size_t kValueVectors = 2;
  static constexpr std::size_t kWeightBytes = 1;  // from position to position
  static constexpr std::size_t kLowPlane = 256;

  INFERNO_INLINE static void store_weights(std::byte* integers, std::size_t position, const Ints (&q)[4]) {
    // Packing works within quarters of registers: quads of positions come out 4 apart.
    const __m512i first = _mm512_packus_epi32(q[0].v, q[1].v);
    const __m512i second = _mm512_packus_epi32(q[2].v, q[3].v);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i seven = _mm512_set1_epi16(127);
    const __m512i high = _mm512_packus_epi16(_mm512_srli_epi16(first, 7), _mm512_srli_epi16(second, 7));
    const __m512i low = _mm512_packus_epi16(_mm512_and_si512(first, seven), _mm512_and_si512(second, seven));
    _mm512_storeu_si512(integers + position, _mm512_permutexvar_epi32(order, high));
    _mm512_storeu_si512(integers + kLowPlane + position, _mm512_permutexvar_epi32(order, low));
  }
  INFERNO_INLINE static ValueSums no_values() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
  INFERNO_INLINE static Ints load_values(const std::int8_t* p) { return {_mm512_loadu_si512(p)}; }
  INFERNO_INLINE static ValueWeights load_value_weights(const std::byte* p, std::size_t count) {
    std::int32_t high = 0;
    std::int32_t low = 0;
    __builtin_memcpy(&high, p, count);
    __builtin_memcpy(&low, p + kLowPlane, count);
    return {_mm512_set1_epi32(high), _mm512_set1_epi32(low)};
  }
  INFERNO_INLINE static ValueSums weigh(ValueSums sums, ValueWeights weights, Ints values) {
    return {_mm512_dpbusd_epi32(sums.high, weights.high, values.v),
            _mm512_dpbusd_epi32(sums.low, weights.low, values.v)};
  }
  INFERNO_INLINE static Ints finish(ValueSums sums) {
    return {_mm512_add_epi32(_mm512_slli_epi32(sums.high, 7), sums.low)};
  }

  INFERNO_INLINE static void prefetch_far(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
  }
  INFERNO_INLINE static void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }

  // Shapes: see matmul.hpp and attention.hpp.
  static constexpr std::size_t kTileTokens = 12;
  static constexpr std::size_t kMatmulTokens = 6;
  static constexpr std::size_t kMatmulPanels = 2;
  static constexpr std::size_t kMatmulFewTokens = 12;
  static constexpr std::size_t kFloatRows = 4;
  static constexpr std::size_t kFloatTokens = 4;
  static constexpr std::size_t kScoreGroups = 2;
  static constexpr std::size_t kScoreHeads = 6;
  static constexpr std::size_t kValueHeads = 4;
};

}  // namespace
}  // namespace inferno::cpu
