#ifndef INFERNO_ARITH_QUANTIZE_HPP_
#define INFERNO_ARITH_QUANTIZE_HPP_

#include "arith/elementary.hpp"

// Quantization of a block by its largest magnitude, as the bits of that float: magnitudes order as unsigned
// integers do, and NaN comes out above everything.

INFERNO_PORTABLE_BEGIN(arith)

INFERNO_PORTABLE uint magnitude_bits(float x) {
  return float_bits(x) & 0x7FFFFFFFU;
}

/// What one step of a quantized value is worth: largest magnitude * `step` (kInt8Step or kWeightStep); 0 for
/// a block that is zero or nearly so; NaN for one that is not finite.
INFERNO_PORTABLE float block_scale(uint largest_bits, float step) {
  if (largest_bits < kTinyBits) return 0.0F;
  if (largest_bits >= kHugeBits) return float_from_bits(kNanBits);
  return multiply(float_from_bits(largest_bits), step);
}

/// What a value is multiplied by before it is rounded: `levels` (kInt8Levels or kWeightLevels) / largest
/// magnitude; 0 where the scale is 0 or NaN.
INFERNO_PORTABLE float block_inverse(uint largest_bits, float levels) {
  if (largest_bits < kTinyBits || largest_bits >= kHugeBits) return 0.0F;
  return multiply(levels, reciprocal(float_from_bits(largest_bits)));
}

/// The quantized value: at most `levels` in magnitude, because the inverse is off by far less than half a
/// step. 0 if the inverse is 0.
INFERNO_PORTABLE int quantize(float x, float inverse) {
  if (inverse == 0.0F) return 0;
  return round_to_int(multiply(x, inverse));
}

INFERNO_PORTABLE_END

#endif  // INFERNO_ARITH_QUANTIZE_HPP_
