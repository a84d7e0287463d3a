#ifndef INFERNO_SAMPLING_FIXED_EXP_HPP_  // GLSL knows no #pragma once
#define INFERNO_SAMPLING_FIXED_EXP_HPP_

#include "sampling/portable.hpp"

// Probabilities as integers. The weight of a logit l among logits with maximum m at temperature T is
// 2^31 exp((l - m) / T), computed by
//
//   x = (m - l) * scale       scale = 2^27 log2(e) / T, one float made by the host
//   u = floor(x)              12345.678 in units of 2^-27; from 2^32 on the weight is 0
//   k = u >> 27, g = u << 5   exp((l - m) / T) = 2^-k 2^-g, g a fraction of 32 bits
//   y = 2^31 2^-g             a polynomial of degree 6 in 32-bit integers, strictly falling in g
//   weight = y 2^-k           rounded to the nearest integer
//
// so one rounded subtraction and one rounded multiplication are the only float arithmetic: nothing that a
// compiler could contract, no subnormal that a device could flush, and no exp of the platform's. The
// largest logit weighs exactly 2^31, sums of up to 2^32 weights fit 63 bits and do not depend on their
// order. The polynomial is off by at most 5e-9 of its value; the whole by at most half a unit more, plus
// what rounding x costs: 2^-23 of (m - l) / T, relative to the weight.
//
// A polynomial in float was tried: 40 times less exact, and a higher logit could weigh one unit less.

INFERNO_PORTABLE_BEGIN(sampling)

/// The weight of the largest logit: 1 in fixed point.
const uint kOne = 0x80000000U;

/// 2^31 * 2^(-fraction / 2^27), for fraction < 2^27.
INFERNO_PORTABLE uint fixed_exp2(uint fraction) {
  uint g = fraction << 5;
  uint p = 0x0007252FU;
  p = 0x00538AF0U - multiply_high(p, g);
  p = 0x0273C7F7U - multiply_high(p, g);
  p = 0x0E34A449U - multiply_high(p, g);
  p = 0x3D7F5844U - multiply_high(p, g);
  p = 0xB1721633U - multiply_high(p, g);
  return kOne - (multiply_high(p, g) >> 1);
}

/// The weight of a logit `distance` >= 0 (or +infinity) below the largest.
INFERNO_PORTABLE uint weight_of(float distance, float scale) {
  float x = multiply(distance, scale);
  if (!(x < 4294967296.0F)) return 0U;
  uint u = uint(x);
  uint k = u >> 27;
  uint half_unit = (1U << k) >> 1;
  return (fixed_exp2(u & 0x07FFFFFFU) + half_unit) >> k;
}

/// An integer that orders like the float: -0 equals +0. NaN has no place in it.
INFERNO_PORTABLE uint order_key(float value) {
  uint bits = float_bits(value);
  if (bits == 0x80000000U) bits = 0U;
  return (bits & 0x80000000U) != 0U ? ~bits : bits | 0x80000000U;
}

/// The float that `order_key` was made from (+0 for -0).
INFERNO_PORTABLE float value_of_key(uint key) {
  return float_from_bits((key & 0x80000000U) != 0U ? key & 0x7FFFFFFFU : ~key);
}

INFERNO_PORTABLE_END

#endif  // INFERNO_SAMPLING_FIXED_EXP_HPP_
