#version 450
// Stages attention_norm, ffn_norm and final_norm: one workgroup for a token. The weighted vector goes to the
// product before 1 / rms is known; the product applies it to its finished sums.

#include "backend/gpu/kernel_constants.hpp"

#define QUANTIZE_THREADS 256
#include "quantize_block.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  NormConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer X {
  float x[];  // [T][D256]
};
layout(std430, set = 0, binding = 1) readonly buffer Weight {
  float weight[];  // [D256]
};
layout(std430, set = 0, binding = 2) writeonly buffer Weighted {
  vec4 weighted[];  // [T][D256 / 4]
};
layout(std430, set = 0, binding = 3) writeonly buffer Quants {
  uint quants[];  // [T][D256 / 4]
};
layout(std430, set = 0, binding = 4) writeonly buffer Scales {
  float scales[];  // [T][D256 / 32]
};
layout(std430, set = 0, binding = 5) writeonly buffer Factors {
  float factors[];  // [T]
};

const uint kChunk = 1024U;
shared float squares[kChunk];
shared float sums[kStride];

void main() {
  uint own = gl_LocalInvocationID.x;
  uint token = gl_WorkGroupID.y;
  float sum = 0.0;  // number `own` of the 32 partial sums
  for (uint chunk = 0U; chunk < c.stride; chunk += kChunk) {
    uint first = chunk + 4U * own;
    vec4 values = vec4(0.0);
    for (uint k = 0U; k < 4U; ++k) {
      float square = 0.0;
      if (first + k < c.columns) {
        float value = x[token * c.stride + first + k];
        square = multiply(value, value);
        values[k] = multiply(value, weight[first + k]);
      }
      squares[4U * own + k] = square;
    }
    QuantizedFour four = quantize_four(values);  // its barriers make the squares visible, too
    if (first < c.stride) {
      uint at = (token * c.stride + first) / 4U;
      if ((c.write & kWriteFloats) != 0U) weighted[at] = values;
      if ((c.write & kWriteQuants) != 0U) {
        quants[at] = four.word;
        if (own % 8U == 0U) scales[at / 8U] = four.scale;
      }
    }
    if (own < uint(kStride)) {
      uint end = min(kChunk, c.stride - chunk);
      for (uint i = own; i < end; i += uint(kStride)) sum = add(sum, squares[i]);
    }
    barrier();
  }
  if (own < uint(kStride)) sums[own] = sum;
  for (uint width = uint(kStride) / 2U; width > 0U; width /= 2U) {
    barrier();
    if (own < width) sums[own] = add(sums[own], sums[own + width]);
  }
  if (own == 0U) factors[token] = reciprocal_sqrt(add(multiply(sums[0], c.inverse_length), c.epsilon));
}
