#ifndef INFERNO_ARITH_CONSTANTS_HPP_
#define INFERNO_ARITH_CONSTANTS_HPP_

#include "arith/portable.hpp"

// The sizes and numbers of the arithmetic contract (docs/arithmetic.md).

INFERNO_PORTABLE_BEGIN(arith)

/// Values that share a scale: activations, keys, queries and values are quantized in blocks of this many.
const int kBlock = 32;
/// Columns of a segment: block sums are added within a segment, then segments are added.
const int kSegment = 256;
/// Positions of an attention split.
const int kSplit = 256;
/// Partial sums of a strided sum (norms, softmax denominators).
const int kStride = 32;
/// Partial sums of a segment when the weights are floats.
const int kFloatStride = 16;

/// Largest magnitude of a quantized activation, key, query or value.
const float kInt8Levels = 127.0F;
/// 1 / 127, rounded.
const float kInt8Step = 0.007874015718698502F;
/// Largest attention weight as an integer: 15 bits, so that 256 products with int8 values fit an int32 sum.
const float kWeightLevels = 32767.0F;
/// 1 / 32767, rounded.
const float kWeightStep = 3.0518509447574615e-05F;
/// Bits of 2^-100: blocks whose largest magnitude is below are zero, so that no scale is subnormal.
const uint kTinyBits = 0x0D800000U;
/// Bits of 2^120: a block that holds a magnitude from here on, an infinity or a NaN counts as not finite.
const uint kHugeBits = 0x7B800000U;
/// Bits of the NaN that is the scale of a block that is not finite: whatever is computed from it becomes NaN,
/// and the row that it belongs to fails.
const uint kNanBits = 0x7FC00000U;

INFERNO_PORTABLE_END

#endif  // INFERNO_ARITH_CONSTANTS_HPP_
