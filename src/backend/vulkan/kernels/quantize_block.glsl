#ifndef INFERNO_QUANTIZE_BLOCK_GLSL_
#define INFERNO_QUANTIZE_BLOCK_GLSL_

#include "arith/quantize.hpp"

// Quantizes 4 values for each of the workgroup's invocations; 8 neighbours hold a block of 32. The workgroup
// comes here together. It needs a word of shared memory for each of QUANTIZE_THREADS; QUANTIZE_SCRATCH says where, if
// there is an array to share.

#ifndef QUANTIZE_SCRATCH
shared uint block_magnitudes[QUANTIZE_THREADS];
#define QUANTIZE_SCRATCH block_magnitudes
#endif

struct QuantizedFour {
  uint word;    // four int8
  float scale;  // of the block
};

QuantizedFour quantize_four(vec4 values) {
  uint own = gl_LocalInvocationID.x;
  uint largest = max(max(magnitude_bits(values.x), magnitude_bits(values.y)),
                     max(magnitude_bits(values.z), magnitude_bits(values.w)));
  QUANTIZE_SCRATCH[own] = largest;
  barrier();
  for (uint i = own / 8U * 8U; i < own / 8U * 8U + 8U; ++i) largest = max(largest, QUANTIZE_SCRATCH[i]);
  barrier();
  float inverse = block_inverse(largest, kInt8Levels);
  QuantizedFour result;
  result.scale = block_scale(largest, kInt8Step);
  result.word = 0U;
  for (uint k = 0U; k < 4U; ++k) result.word |= (uint(quantize(values[k], inverse)) & 0xFFU) << (8U * k);
  return result;
}

#endif
