#version 450
// Stage swiglu: a workgroup takes 256 elements of a token.

#include "backend/gpu/kernel_constants.hpp"

#define QUANTIZE_THREADS 64
#include "quantize_block.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Constants {
  SwigluConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer GateUp {
  float gate_up[];  // [T][in_stride]
};
layout(std430, set = 0, binding = 1) writeonly buffer Floats {
  vec4 floats[];  // [T][F256 / 4]
};
layout(std430, set = 0, binding = 2) writeonly buffer Quants {
  uint quants[];  // [T][F256 / 4]
};
layout(std430, set = 0, binding = 3) writeonly buffer Scales {
  float scales[];  // [T][F256 / 32]
};

void main() {
  uint first = gl_WorkGroupID.x * kPadColumns + 4U * gl_LocalInvocationID.x;
  uint token = gl_WorkGroupID.y;
  uint from = token * c.in_stride + first;
  vec4 values = vec4(0.0);
  for (uint k = 0U; k < 4U; ++k) {
    if (first + k < c.columns) values[k] = swiglu(gate_up[from + k], gate_up[from + c.up_offset + k]);
  }
  QuantizedFour four = quantize_four(values);
  uint at = token * c.stride + first;
  if ((c.write & kWriteFloats) != 0U) floats[at / 4U] = values;
  if ((c.write & kWriteQuants) == 0U) return;
  quants[at / 4U] = four.word;
  if (at % 32U == 0U) scales[at / 32U] = four.scale;
}
