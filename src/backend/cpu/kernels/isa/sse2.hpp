#pragma once

#include <cstddef>
#include <cstdint>
#include <emmintrin.h>

#include "backend/cpu/kernels/inline.hpp"
#include "backend/cpu/kernels/unroll.hpp"

namespace inferno::cpu {
namespace {

/// Sixteen lanes in four registers, for what every x86-64 processor has. See isa/README.md for what a kernel
/// may ask of an instruction set.
struct Sse2 {
  static constexpr std::size_t kRegisters = 4;
  struct Floats {
    __m128 v[kRegisters];
  };
  struct Ints {
    __m128i v[kRegisters];
  };

  /// A result whose registers are what `part(0)` to `part(3)` give.
  template <class Result, class Part>
  INFERNO_INLINE static Result each(const Part& part) {
    return {{part(Index<0>{}), part(Index<1>{}), part(Index<2>{}), part(Index<3>{})}};
  }

  // Floats.
  INFERNO_INLINE static Floats zero() { return broadcast(0.0F); }
  INFERNO_INLINE static Floats broadcast(float x) {
    return each<Floats>([=](auto) INFERNO_INLINE_LAMBDA { return _mm_set1_ps(x); });
  }
  INFERNO_INLINE static Floats load(const float* p) {
    return each<Floats>([=](auto i) INFERNO_INLINE_LAMBDA { return _mm_loadu_ps(p + 4 * i.value); });
  }
  INFERNO_INLINE static void store(float* p, Floats x) {
    unroll<kRegisters>([&](auto i) INFERNO_INLINE_LAMBDA { _mm_storeu_ps(p + 4 * i.value, x.v[i.value]); });
  }
  INFERNO_INLINE static Floats add(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_add_ps(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Floats subtract(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_sub_ps(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Floats multiply(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_mul_ps(a.v[i.value], b.v[i.value]); });
  }
  // The instructions return their second operand if either is NaN, or if both are zero.
  INFERNO_INLINE static Floats larger(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_max_ps(b.v[i.value], a.v[i.value]); });
  }
  INFERNO_INLINE static Floats smaller(Floats a, Floats b) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_min_ps(b.v[i.value], a.v[i.value]); });
  }
  INFERNO_INLINE static float first(Floats x) { return _mm_cvtss_f32(x.v[0]); }
  INFERNO_INLINE static float tree_sum(Floats x) {
    const __m128 four = _mm_add_ps(_mm_add_ps(x.v[0], x.v[2]), _mm_add_ps(x.v[1], x.v[3]));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  INFERNO_INLINE static float largest_lane(Floats x) {
    const __m128 four = _mm_max_ps(_mm_max_ps(x.v[0], x.v[2]), _mm_max_ps(x.v[1], x.v[3]));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
  }
  INFERNO_INLINE static Floats load_half(const std::byte* p) {
    const Ints halves = load_halves(p);
    const Ints magnitude = bit_and(halves, broadcast_int(0x7FFF));
    const Ints sign = shift_left<16>(bit_and(halves, broadcast_int(0x8000)));
    // The bits as a float are the value times 2^-112, subnormals included; the product is exact.
    const Ints shifted = shift_left<13>(magnitude);
    const Floats finite = multiply(from_bits(shifted), broadcast(0x1p112F));
    const Floats other = from_bits(add(shifted, broadcast_int(0x70000000)));
    const Floats value = select_less(magnitude, broadcast_int(0x7C00), finite, other);
    return from_bits(add(bits(value), sign));
  }
  INFERNO_INLINE static Floats load_bfloat(const std::byte* p) {
    return from_bits(shift_left<16>(load_halves(p)));
  }

  // Integers.
  INFERNO_INLINE static Ints bits(Floats x) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_castps_si128(x.v[i.value]); });
  }
  INFERNO_INLINE static Floats from_bits(Ints x) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_castsi128_ps(x.v[i.value]); });
  }
  INFERNO_INLINE static Ints broadcast_int(std::int32_t x) {
    return each<Ints>([=](auto) INFERNO_INLINE_LAMBDA { return _mm_set1_epi32(x); });
  }
  INFERNO_INLINE static Ints load_ints(const std::int32_t* p) {
    return each<Ints>([=](auto i) INFERNO_INLINE_LAMBDA { return load_register(p + 4 * i.value); });
  }
  INFERNO_INLINE static void store_ints(std::int32_t* p, Ints x) {
    unroll<kRegisters>([&](auto i) INFERNO_INLINE_LAMBDA {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 4 * i.value), x.v[i.value]);
    });
  }
  INFERNO_INLINE static Ints add(Ints a, Ints b) {
    return each<Ints>([&](auto i)
                          INFERNO_INLINE_LAMBDA { return _mm_add_epi32(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Ints subtract(Ints a, Ints b) {
    return each<Ints>([&](auto i)
                          INFERNO_INLINE_LAMBDA { return _mm_sub_epi32(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Ints bit_and(Ints a, Ints b) {
    return each<Ints>([&](auto i)
                          INFERNO_INLINE_LAMBDA { return _mm_and_si128(a.v[i.value], b.v[i.value]); });
  }
  INFERNO_INLINE static Ints larger(Ints a, Ints b) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return larger_of(a.v[i.value], b.v[i.value]); });
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_left(Ints x) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_slli_epi32(x.v[i.value], kBits); });
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_right(Ints x) {
    return each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_srli_epi32(x.v[i.value], kBits); });
  }
  INFERNO_INLINE static Floats to_float(Ints x) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA { return _mm_cvtepi32_ps(x.v[i.value]); });
  }
  INFERNO_INLINE static Floats select_less(Ints a, Ints b, Floats then, Floats otherwise) {
    return each<Floats>([&](auto i) INFERNO_INLINE_LAMBDA {
      const __m128 less = _mm_castsi128_ps(_mm_cmplt_epi32(a.v[i.value], b.v[i.value]));
      return _mm_or_ps(_mm_and_ps(less, then.v[i.value]), _mm_andnot_ps(less, otherwise.v[i.value]));
    });
  }
  INFERNO_INLINE static std::int32_t largest_lane(Ints x) {
    const __m128i four = larger_of(larger_of(x.v[0], x.v[2]), larger_of(x.v[1], x.v[3]));
    const __m128i two = larger_of(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(larger_of(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  INFERNO_INLINE static std::int32_t sum_lanes(Ints x) {
    const __m128i four = _mm_add_epi32(_mm_add_epi32(x.v[0], x.v[2]), _mm_add_epi32(x.v[1], x.v[3]));
    const __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xB1)));
  }
  INFERNO_INLINE static void store_bytes(std::int8_t* p, Ints x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm_packs_epi16(_mm_packs_epi32(x.v[0], x.v[1]), _mm_packs_epi32(x.v[2], x.v[3])));
  }

  // Sums of products of weights (or keys) with activations (or queries): both widened to 16 bits, the four
  // columns of a lane as pairs (0, 2) and (1, 3), which masks and shifts make of bytes.
  using Dots = Ints;
  using Weights = Ints;
  struct Activations {
    __m128i even, odd;
  };
  static constexpr std::int32_t kWeightBias = 128;
  static constexpr bool kFusedScale = false;
  static constexpr std::size_t kGroups = 1;

  INFERNO_INLINE static Dots start(const std::int32_t* offset) { return broadcast_int(*offset); }
  INFERNO_INLINE static Weights load_weights(const std::uint8_t* p) {
    return each<Weights>([=](auto i) INFERNO_INLINE_LAMBDA { return load_register(p + 16 * i.value); });
  }
  INFERNO_INLINE static Activations load_activations(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const __m128i all = _mm_set1_epi32(four);
    return {_mm_srai_epi16(_mm_slli_epi16(all, 8), 8), _mm_srai_epi16(all, 8)};
  }
  INFERNO_INLINE static Dots accumulate(Dots dots, Weights weights, Activations x) {
    return each<Dots>([&](auto i) INFERNO_INLINE_LAMBDA {
      const __m128i even = _mm_and_si128(weights.v[i.value], _mm_set1_epi16(0xFF));
      const __m128i odd = _mm_srli_epi16(weights.v[i.value], 8);
      const __m128i sum = _mm_add_epi32(_mm_madd_epi16(even, x.even), _mm_madd_epi16(odd, x.odd));
      return _mm_add_epi32(dots.v[i.value], sum);
    });
  }
  INFERNO_INLINE static Ints finish(Dots dots) { return dots; }

  // Sums of attention weights of 15 bits with values, by pairs of positions likewise.
  struct ValueSums {
    Ints sums;
  };
  struct ValueWeights {
    __m128i even, odd;
  };
  struct Values {
    Ints bytes;
  };
  static constexpr std::size_t kValueVectors = 1;
  static constexpr std::size_t kWeightBytes = sizeof(std::int16_t);  // from position to position

  INFERNO_INLINE static void store_weights(std::byte* integers, std::size_t position, const Ints (&q)[4]) {
    auto* target = reinterpret_cast<__m128i*>(integers + position * kWeightBytes);
    for (std::size_t i = 0; i < 4; ++i) {
      _mm_storeu_si128(target + 2 * i, _mm_packs_epi32(q[i].v[0], q[i].v[1]));
      _mm_storeu_si128(target + 2 * i + 1, _mm_packs_epi32(q[i].v[2], q[i].v[3]));
    }
  }
  INFERNO_INLINE static ValueSums no_values() { return {broadcast_int(0)}; }
  INFERNO_INLINE static Values load_values(const std::int8_t* p) {
    return {each<Ints>([=](auto i) INFERNO_INLINE_LAMBDA { return load_register(p + 16 * i.value); })};
  }
  INFERNO_INLINE static ValueWeights load_value_weights(const std::byte* p, std::size_t count) {
    long long four = 0;
    __builtin_memcpy(&four, p, count * kWeightBytes);
    const __m128i pairs = _mm_shufflelo_epi16(_mm_cvtsi64_si128(four), _MM_SHUFFLE(3, 1, 2, 0));
    return {_mm_shuffle_epi32(pairs, 0x00), _mm_shuffle_epi32(pairs, 0x55)};
  }
  INFERNO_INLINE static ValueSums weigh(ValueSums sums, ValueWeights weights, Values values) {
    return {each<Ints>([&](auto i) INFERNO_INLINE_LAMBDA {
      const __m128i even = _mm_srai_epi16(_mm_slli_epi16(values.bytes.v[i.value], 8), 8);
      const __m128i odd = _mm_srai_epi16(values.bytes.v[i.value], 8);
      const __m128i sum = _mm_add_epi32(_mm_madd_epi16(even, weights.even), _mm_madd_epi16(odd, weights.odd));
      return _mm_add_epi32(sums.sums.v[i.value], sum);
    })};
  }
  INFERNO_INLINE static Ints finish(ValueSums sums) { return sums.sums; }

  INFERNO_INLINE static void prefetch_far(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
  }
  INFERNO_INLINE static void prefetch(const void* p) {
    _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0);
  }

  // Shapes: see matmul.hpp and attention.hpp.
  static constexpr std::size_t kTileTokens = 4;
  static constexpr std::size_t kMatmulTokens = 2;
  static constexpr std::size_t kMatmulPanels = 1;
  static constexpr std::size_t kMatmulFewTokens = 2;
  static constexpr std::size_t kFloatRows = 2;
  static constexpr std::size_t kFloatTokens = 1;
  static constexpr std::size_t kScoreGroups = 1;
  static constexpr std::size_t kScoreHeads = 2;
  static constexpr std::size_t kValueHeads = 2;

 private:
  INFERNO_INLINE static __m128i load_register(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  INFERNO_INLINE static __m128i larger_of(__m128i a, __m128i b) {
    const __m128i greater = _mm_cmpgt_epi32(a, b);
    return _mm_or_si128(_mm_and_si128(greater, a), _mm_andnot_si128(greater, b));
  }
  /// Sixteen 16-bit numbers as 32-bit ones.
  INFERNO_INLINE static Ints load_halves(const std::byte* p) {
    const __m128i low = load_register(p);
    const __m128i high = load_register(p + 16);
    const __m128i zero = _mm_setzero_si128();
    return {{_mm_unpacklo_epi16(low, zero), _mm_unpackhi_epi16(low, zero), _mm_unpacklo_epi16(high, zero),
             _mm_unpackhi_epi16(high, zero)}};
  }
};

}  // namespace
}  // namespace inferno::cpu
