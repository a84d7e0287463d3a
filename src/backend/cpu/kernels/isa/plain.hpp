#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/inline.hpp"

namespace inferno::cpu {
namespace {

/// Sixteen lanes in an array: what a compiler makes of plain C++, for processors without kernels of their
/// own. See isa/README.md for what a kernel may ask of an instruction set.
struct Plain {
  static constexpr std::size_t kLanes = 16;
  struct Floats {
    float v[kLanes];
  };
  struct Ints {
    std::int32_t v[kLanes];
  };

  template <class Result, class Lane>
  INFERNO_INLINE static Result each(const Lane& lane) {
    Result result;
    for (std::size_t i = 0; i < kLanes; ++i) result.v[i] = lane(i);
    return result;
  }

  // Floats.
  INFERNO_INLINE static Floats zero() { return broadcast(0.0F); }
  INFERNO_INLINE static Floats broadcast(float x) {
    return each<Floats>([=](std::size_t) { return x; });
  }
  INFERNO_INLINE static Floats load(const float* p) {
    Floats x;
    __builtin_memcpy(x.v, p, sizeof x.v);
    return x;
  }
  INFERNO_INLINE static void store(float* p, const Floats& x) { __builtin_memcpy(p, x.v, sizeof x.v); }
  INFERNO_INLINE static Floats add(const Floats& a, const Floats& b) {
    return each<Floats>([&](std::size_t i) { return a.v[i] + b.v[i]; });
  }
  INFERNO_INLINE static Floats subtract(const Floats& a, const Floats& b) {
    return each<Floats>([&](std::size_t i) { return a.v[i] - b.v[i]; });
  }
  INFERNO_INLINE static Floats multiply(const Floats& a, const Floats& b) {
    return each<Floats>([&](std::size_t i) { return a.v[i] * b.v[i]; });
  }
  INFERNO_INLINE static Floats larger(const Floats& a, const Floats& b) {
    return each<Floats>([&](std::size_t i) { return b.v[i] > a.v[i] ? b.v[i] : a.v[i]; });
  }
  INFERNO_INLINE static Floats smaller(const Floats& a, const Floats& b) {
    return each<Floats>([&](std::size_t i) { return b.v[i] < a.v[i] ? b.v[i] : a.v[i]; });
  }
  INFERNO_INLINE static float first(const Floats& x) { return x.v[0]; }
  INFERNO_INLINE static float tree_sum(Floats x) {
    for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) x.v[i] += x.v[i + half];
    }
    return x.v[0];
  }
  INFERNO_INLINE static float largest_lane(const Floats& x) {
    float largest = x.v[0];
    for (const float lane : x.v) largest = lane > largest ? lane : largest;
    return largest;
  }
  INFERNO_INLINE static Floats load_half(const std::byte* p) {
    std::uint16_t halves[kLanes];
    __builtin_memcpy(halves, p, sizeof halves);
    return each<Floats>([&](std::size_t i) { return half_to_float(halves[i]); });
  }
  INFERNO_INLINE static Floats load_bfloat(const std::byte* p) {
    std::uint16_t halves[kLanes];
    __builtin_memcpy(halves, p, sizeof halves);
    return each<Floats>(
        [&](std::size_t i) { return __builtin_bit_cast(float, std::uint32_t{halves[i]} << 16U); });
  }

  // Integers, which wrap around.
  INFERNO_INLINE static Ints bits(const Floats& x) { return __builtin_bit_cast(Ints, x); }
  INFERNO_INLINE static Floats from_bits(const Ints& x) { return __builtin_bit_cast(Floats, x); }
  INFERNO_INLINE static Ints broadcast_int(std::int32_t x) {
    return each<Ints>([=](std::size_t) { return x; });
  }
  INFERNO_INLINE static Ints load_ints(const std::int32_t* p) {
    Ints x;
    __builtin_memcpy(x.v, p, sizeof x.v);
    return x;
  }
  INFERNO_INLINE static void store_ints(std::int32_t* p, const Ints& x) {
    __builtin_memcpy(p, x.v, sizeof x.v);
  }
  INFERNO_INLINE static Ints add(const Ints& a, const Ints& b) {
    return each<Ints>([&](std::size_t i) { return signed_of(unsigned_of(a.v[i]) + unsigned_of(b.v[i])); });
  }
  INFERNO_INLINE static Ints subtract(const Ints& a, const Ints& b) {
    return each<Ints>([&](std::size_t i) { return signed_of(unsigned_of(a.v[i]) - unsigned_of(b.v[i])); });
  }
  INFERNO_INLINE static Ints bit_and(const Ints& a, const Ints& b) {
    return each<Ints>([&](std::size_t i) { return a.v[i] & b.v[i]; });
  }
  INFERNO_INLINE static Ints larger(const Ints& a, const Ints& b) {
    return each<Ints>([&](std::size_t i) { return b.v[i] > a.v[i] ? b.v[i] : a.v[i]; });
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_left(const Ints& x) {
    return each<Ints>([&](std::size_t i) { return signed_of(unsigned_of(x.v[i]) << kBits); });
  }
  template <unsigned kBits>
  INFERNO_INLINE static Ints shift_right(const Ints& x) {
    return each<Ints>([&](std::size_t i) { return signed_of(unsigned_of(x.v[i]) >> kBits); });
  }
  INFERNO_INLINE static Floats to_float(const Ints& x) {
    return each<Floats>([&](std::size_t i) { return static_cast<float>(x.v[i]); });
  }
  INFERNO_INLINE static Floats select_less(const Ints& a, const Ints& b, const Floats& then,
                                           const Floats& otherwise) {
    return each<Floats>([&](std::size_t i) { return a.v[i] < b.v[i] ? then.v[i] : otherwise.v[i]; });
  }
  INFERNO_INLINE static std::int32_t largest_lane(const Ints& x) {
    std::int32_t largest = x.v[0];
    for (const auto lane : x.v) largest = lane > largest ? lane : largest;
    return largest;
  }
  INFERNO_INLINE static std::int32_t sum_lanes(const Ints& x) {
    std::int32_t sum = 0;
    for (const auto lane : x.v) sum += lane;
    return sum;
  }
  INFERNO_INLINE static void store_bytes(std::int8_t* p, const Ints& x) {
    for (std::size_t i = 0; i < kLanes; ++i) p[i] = static_cast<std::int8_t>(x.v[i]);
  }

  // Sums of products of weights (or keys) with activations (or queries).
  using Dots = Ints;
  struct Weights {
    std::uint8_t v[kLanes * 4];
  };
  struct Activations {
    std::int8_t v[4];
  };
  static constexpr std::int32_t kWeightBias = 128;
  static constexpr bool kFusedScale = false;
  static constexpr std::size_t kGroups = 1;

  INFERNO_INLINE static Dots start(const std::int32_t* offset) { return broadcast_int(*offset); }
  INFERNO_INLINE static Weights load_weights(const std::uint8_t* p) {
    Weights weights;
    __builtin_memcpy(weights.v, p, sizeof weights.v);
    return weights;
  }
  INFERNO_INLINE static Activations load_activations(const std::int8_t* p) {
    Activations activations;
    __builtin_memcpy(activations.v, p, sizeof activations.v);
    return activations;
  }
  INFERNO_INLINE static Dots accumulate(Dots dots, const Weights& weights, const Activations& activations) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      for (std::size_t j = 0; j < 4; ++j) dots.v[i] += int{weights.v[i * 4 + j]} * int{activations.v[j]};
    }
    return dots;
  }
  INFERNO_INLINE static Ints finish(const Dots& dots) { return dots; }

  // Sums of attention weights of 15 bits with values.
  struct ValueSums {
    Ints sums;
  };
  struct ValueWeights {
    std::int16_t v[4];
  };
  struct Values {
    std::int8_t v[kLanes * 4];
  };
  static constexpr std::size_t kValueVectors = 1;
  static constexpr std::size_t kWeightBytes = sizeof(std::int16_t);  // from position to position

  INFERNO_INLINE static void store_weights(std::byte* integers, std::size_t position, const Ints (&q)[4]) {
    std::int16_t halves[4 * kLanes];
    for (std::size_t i = 0; i < 4 * kLanes; ++i)
      halves[i] = static_cast<std::int16_t>(q[i / kLanes].v[i % kLanes]);
    __builtin_memcpy(integers + position * kWeightBytes, halves, sizeof halves);
  }
  INFERNO_INLINE static ValueSums no_values() { return {broadcast_int(0)}; }
  INFERNO_INLINE static Values load_values(const std::int8_t* p) {
    Values values;
    __builtin_memcpy(values.v, p, sizeof values.v);
    return values;
  }
  INFERNO_INLINE static ValueWeights load_value_weights(const std::byte* p, std::size_t count) {
    ValueWeights weights{};
    __builtin_memcpy(weights.v, p, count * kWeightBytes);
    return weights;
  }
  INFERNO_INLINE static ValueSums weigh(ValueSums sums, const ValueWeights& weights, const Values& values) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      for (std::size_t j = 0; j < 4; ++j) sums.sums.v[i] += int{values.v[i * 4 + j]} * int{weights.v[j]};
    }
    return sums;
  }
  INFERNO_INLINE static Ints finish(const ValueSums& sums) { return sums.sums; }

  INFERNO_INLINE static void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }
  INFERNO_INLINE static void prefetch(const void* p) { __builtin_prefetch(p); }

  // Shapes: see matmul.hpp and attention.hpp.
  static constexpr std::size_t kTileTokens = 4;
  static constexpr std::size_t kMatmulTokens = 1;
  static constexpr std::size_t kMatmulPanels = 1;
  static constexpr std::size_t kMatmulFewTokens = 1;
  static constexpr std::size_t kFloatRows = 1;
  static constexpr std::size_t kFloatTokens = 1;
  static constexpr std::size_t kScoreGroups = 1;
  static constexpr std::size_t kScoreHeads = 1;
  static constexpr std::size_t kValueHeads = 1;

 private:
  INFERNO_INLINE static std::uint32_t unsigned_of(std::int32_t x) { return static_cast<std::uint32_t>(x); }
  INFERNO_INLINE static std::int32_t signed_of(std::uint32_t x) { return static_cast<std::int32_t>(x); }
  /// binary16 to binary32. Infinite scales are refused when matrices are packed; as weights they stay what
  /// they are.
  INFERNO_INLINE static float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16U;
    const std::uint32_t magnitude = half & 0x7FFFU;
    if (magnitude >= 0x7C00U) {
      return __builtin_bit_cast(float, sign | 0x7F800000U | (magnitude & 0x3FFU) << 13U);
    }
    // The bits as a float are the value times 2^-112, subnormals included; the product is exact.
    const float scaled = __builtin_bit_cast(float, magnitude << 13U) * 0x1p112F;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, scaled));
  }
};

}  // namespace
}  // namespace inferno::cpu
