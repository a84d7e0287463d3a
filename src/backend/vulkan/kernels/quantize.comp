#version 450
// A vector as int8 in blocks of 32: a workgroup takes 256 elements of a token.

#include "backend/gpu/kernel_constants.hpp"

#define QUANTIZE_THREADS 64
#include "quantize_block.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Constants {
  QuantizeConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer X {
  float x[];  // [T][W256]
};
layout(std430, set = 0, binding = 1) writeonly buffer Quants {
  uint quants[];  // [T][W256 / 4]
};
layout(std430, set = 0, binding = 2) writeonly buffer Scales {
  float scales[];  // [T][W256 / 32]
};

void main() {
  uint first = gl_WorkGroupID.x * kPadColumns + 4U * gl_LocalInvocationID.x;
  uint at = gl_WorkGroupID.y * c.stride + first;
  vec4 values = vec4(0.0);
  for (uint k = 0U; k < 4U; ++k) {
    if (first + k < c.columns) values[k] = x[at + k];
  }
  QuantizedFour four = quantize_four(values);
  quants[at / 4U] = four.word;
  if (at % 32U == 0U) scales[at / 32U] = four.scale;
}
