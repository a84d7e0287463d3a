#ifndef INFERNO_NORM_VECTOR_GLSL_
#define INFERNO_NORM_VECTOR_GLSL_

// The norm of one vector by every workgroup that multiplies it, instead of a dispatch of its own: computing a
// thousand elements again costs less than asking once more. Needs kThreads, and x, weight and the constants
// columns, segments, inverse_length and epsilon.

#define QUANTIZE_THREADS kThreads
#include "quantize_block.glsl"

const uint kChunk = 4U * kThreads;
shared uvec4 quants[kFusedColumns / 16U];  // [D256 / 16]
shared float scales[kFusedColumns / 32U];  // [D256 / 32]
shared float squares[2U * kChunk];         // of a chunk and the one before
shared float square_sums[32];

vec4 weighted_four(vec4 values, vec4 weights_four) {
  precise vec4 products = values * weights_four;
  return products;
}

// Fills `quants` and `scales`; what it returns, to all invocations, is 1 / rms. They come here together.
float norm_vector() {
  uint own = gl_LocalInvocationID.x;
  uint fours = c.segments * kPadColumns / 4U;
  float sum = 0.0;  // number `own` of the 32 partial sums
  vec4 values = own < fours ? x[own] : vec4(0.0);
  vec4 factors = own < fours ? weight[own] : vec4(0.0);
  uint buffered = 0U;
  for (uint four = own; four - own < fours; four += kThreads) {
    vec4 weighted = weighted_four(values, factors);
    vec4 own_squares = weighted_four(values, values);
    for (uint k = 0U; k < 4U; ++k) squares[buffered + 4U * own + k] = own_squares[k];
    bool exists = four < fours;
    if (four + kThreads < fours) {
      values = x[four + kThreads];
      factors = weight[four + kThreads];
    } else {
      values = vec4(0.0);
      factors = vec4(0.0);
    }
    QuantizedFour quantized = quantize_four(weighted);  // its barriers make the squares visible, too
    if (exists) {
      quants[four / 4U][four % 4U] = quantized.word;
      if (four % 8U == 0U) scales[four / 8U] = quantized.scale;
    }
    if (own < 32U) {
      for (uint i = own; i < kChunk; i += 32U) sum = add(sum, squares[buffered + i]);
    }
    buffered = kChunk - buffered;
  }
  if (own < 32U) square_sums[own] = sum;
  for (uint width = 16U; width > 0U; width /= 2U) {
    barrier();
    if (own < width) square_sums[own] = add(square_sums[own], square_sums[own + width]);
  }
  barrier();
  return reciprocal_sqrt(add(multiply(square_sums[0], c.inverse_length), c.epsilon));
}

#endif
