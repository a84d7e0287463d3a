#pragma once

#include "arith/constants.hpp"
#include "backend/cpu/kernels/inline.hpp"

namespace inferno::cpu {

/// arith/elementary.hpp for sixteen lanes: the same operations in the same order. Written again because the
/// original's inline functions must not be compiled for one instruction set here and another there.
template <class Isa>
struct Elementary {
  using Floats = typename Isa::Floats;
  using Ints = typename Isa::Ints;

  static constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23
  static constexpr std::int32_t kRounderBits = 0x4B400000;

  /// The nearest whole number, half to even, for |x| < 2^22.
  INFERNO_INLINE static Ints round_to_int(Floats x) {
    return Isa::subtract(Isa::bits(Isa::add(x, Isa::broadcast(kRounder))), Isa::broadcast_int(kRounderBits));
  }

  INFERNO_INLINE static Floats reciprocal(Floats a) {
    const Floats two = Isa::broadcast(2.0F);
    Floats r = Isa::from_bits(Isa::subtract(Isa::broadcast_int(0x7EF311C7), Isa::bits(a)));
    r = Isa::multiply(r, Isa::subtract(two, Isa::multiply(a, r)));
    r = Isa::multiply(r, Isa::subtract(two, Isa::multiply(a, r)));
    return Isa::multiply(r, Isa::subtract(two, Isa::multiply(a, r)));
  }

  INFERNO_INLINE static Floats reciprocal_sqrt(Floats a) {
    const Floats half_a = Isa::multiply(Isa::broadcast(0.5F), a);
    Floats r = Isa::from_bits(
        Isa::subtract(Isa::broadcast_int(0x5F375A86), Isa::template shift_right<1>(Isa::bits(a))));
    r = newton_sqrt(half_a, r);
    r = newton_sqrt(half_a, r);
    return newton_sqrt(half_a, r);
  }

  INFERNO_INLINE static Floats exponential(Floats x) {
    const Floats rounder = Isa::broadcast(kRounder);
    const Floats clamped = Isa::smaller(Isa::larger(x, Isa::broadcast(-87.0F)), Isa::broadcast(87.0F));
    const Floats scaled = Isa::multiply(clamped, Isa::broadcast(1.44269504F));
    const Floats shifted = Isa::add(scaled, rounder);
    const Floats fraction = Isa::subtract(scaled, Isa::subtract(shifted, rounder));
    Floats power = Isa::broadcast(0.00015403530F);
    power = Isa::add(Isa::multiply(power, fraction), Isa::broadcast(0.0013333558F));
    power = Isa::add(Isa::multiply(power, fraction), Isa::broadcast(0.0096181291F));
    power = Isa::add(Isa::multiply(power, fraction), Isa::broadcast(0.0555041087F));
    power = Isa::add(Isa::multiply(power, fraction), Isa::broadcast(0.2402265070F));
    power = Isa::add(Isa::multiply(power, fraction), Isa::broadcast(0.6931471806F));
    power = Isa::add(Isa::multiply(power, fraction), Isa::broadcast(1.0F));
    const Ints whole = Isa::template shift_left<23>(Isa::bits(shifted));
    return Isa::multiply(power, Isa::from_bits(Isa::add(Isa::broadcast_int(0x3F800000), whole)));
  }

  INFERNO_INLINE static Floats swiglu(Floats gate, Floats up) {
    // -gate, NaN and zeros included, is gate with its sign bit flipped; 0 - gate would turn 0 into +0, which
    // exp maps to the same 1.
    const Floats negated = Isa::subtract(Isa::zero(), gate);
    const Floats sigmoid = reciprocal(Isa::add(Isa::broadcast(1.0F), exponential(negated)));
    return Isa::multiply(Isa::multiply(gate, sigmoid), up);
  }

  INFERNO_INLINE static Ints magnitude_bits(Floats x) {
    return Isa::bit_and(Isa::bits(x), Isa::broadcast_int(0x7FFFFFFF));
  }

  /// What one step of a quantized value is worth.
  INFERNO_INLINE static Floats block_scale(Ints largest, float step) {
    const Floats scale = Isa::multiply(Isa::from_bits(largest), Isa::broadcast(step));
    return usable(largest, scale, Isa::from_bits(Isa::broadcast_int(int{arith::kNanBits})));
  }

  /// What a value is multiplied by before it is rounded.
  INFERNO_INLINE static Floats block_inverse(Ints largest, float levels) {
    const Floats inverse = Isa::multiply(Isa::broadcast(levels), reciprocal(Isa::from_bits(largest)));
    return usable(largest, inverse, Isa::zero());
  }

  /// quantize(x, inverse), `is_zero` saying where the inverse is: a NaN or an infinity times zero would not
  /// round to 0.
  INFERNO_INLINE static Ints quantize(Floats x, Floats inverse) {
    const Ints rounded = round_to_int(Isa::multiply(x, inverse));
    return Isa::bits(
        Isa::select_less(Isa::broadcast_int(0), Isa::bits(inverse), Isa::from_bits(rounded), Isa::zero()));
  }

 private:
  INFERNO_INLINE static Floats newton_sqrt(Floats half_a, Floats r) {
    return Isa::multiply(r, Isa::subtract(Isa::broadcast(1.5F), Isa::multiply(Isa::multiply(half_a, r), r)));
  }

  /// `value`; 0 where the largest magnitude is tiny, `not_finite` where it is huge. Magnitudes compare as
  /// signed integers.
  INFERNO_INLINE static Floats usable(Ints largest, Floats value, Floats not_finite) {
    const Floats finite =
        Isa::select_less(largest, Isa::broadcast_int(int{arith::kHugeBits}), value, not_finite);
    return Isa::select_less(largest, Isa::broadcast_int(int{arith::kTinyBits}), Isa::zero(), finite);
  }
};

}  // namespace inferno::cpu
