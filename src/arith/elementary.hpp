#ifndef INFERNO_ARITH_ELEMENTARY_HPP_
#define INFERNO_ARITH_ELEMENTARY_HPP_

#include "arith/constants.hpp"

// Functions that processors have of their own, each a little different: here as short sequences of
// multiplies, adds and bit operations, the same everywhere.

INFERNO_PORTABLE_BEGIN(arith)

/// 1.5 * 2^23: adding and subtracting it rounds a float of magnitude below 2^22 to a whole number, half to
/// even.
const float kRounder = 12582912.0F;
const uint kRounderBits = 0x4B400000U;

/// The nearest whole number, half to even, for |x| < 2^22. NaN and infinity give a number without meaning.
INFERNO_PORTABLE int round_to_int(float x) {
  return as_int(float_bits(add(x, kRounder)) - kRounderBits);
}

/// 1 / a for a in [2^-120, 2^120], within 2 units in the last place: a linear guess by the bits, off by 5.1 %
/// at most, and three Newton steps that square the error.
INFERNO_PORTABLE float reciprocal(float a) {
  float r = float_from_bits(0x7EF311C7U - float_bits(a));
  r = multiply(r, subtract(2.0F, multiply(a, r)));
  r = multiply(r, subtract(2.0F, multiply(a, r)));
  r = multiply(r, subtract(2.0F, multiply(a, r)));
  return r;
}

/// 1 / sqrt(a) for a in [2^-120, 2^120], within 3 units in the last place.
INFERNO_PORTABLE float reciprocal_sqrt(float a) {
  float half_a = multiply(0.5F, a);
  float r = float_from_bits(0x5F375A86U - (float_bits(a) >> 1U));
  r = multiply(r, subtract(1.5F, multiply(multiply(half_a, r), r)));
  r = multiply(r, subtract(1.5F, multiply(multiply(half_a, r), r)));
  r = multiply(r, subtract(1.5F, multiply(multiply(half_a, r), r)));
  return r;
}

/// exp(x), x clamped to [-87, 87] so that no result is subnormal or infinite; relative error below 1e-5 (it
/// comes from rounding x * log2(e), which no weight of a softmax notices). NaN stays NaN.
INFERNO_PORTABLE float exponential(float x) {
  float clamped = x < -87.0F ? -87.0F : x;
  clamped = clamped > 87.0F ? 87.0F : clamped;
  float scaled = multiply(clamped, 1.44269504F);
  float shifted = add(scaled, kRounder);
  float fraction = subtract(scaled, subtract(shifted, kRounder));  // in [-1/2, 1/2]
  // 2^fraction: Taylor's series in ln(2), to the sixth power.
  float power = 0.00015403530F;
  power = add(multiply(power, fraction), 0.0013333558F);
  power = add(multiply(power, fraction), 0.0096181291F);
  power = add(multiply(power, fraction), 0.0555041087F);
  power = add(multiply(power, fraction), 0.2402265070F);
  power = add(multiply(power, fraction), 0.6931471806F);
  power = add(multiply(power, fraction), 1.0F);
  // The whole part stands in the low bits of `shifted`, in two's complement; it goes to the exponent.
  uint whole = float_bits(shifted) << 23U;
  return multiply(power, float_from_bits(0x3F800000U + whole));
}

/// silu(gate) * up, with silu(x) = x / (1 + exp(-x)).
INFERNO_PORTABLE float swiglu(float gate, float up) {
  float sigmoid = reciprocal(add(1.0F, exponential(-gate)));
  return multiply(multiply(gate, sigmoid), up);
}

INFERNO_PORTABLE_END

#endif  // INFERNO_ARITH_ELEMENTARY_HPP_
