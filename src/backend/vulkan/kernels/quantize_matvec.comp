#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// quantize, matvec_q8 and the addition to what is there at once, for one vector.

#define WEIGHTS_BINDING 0
#include "weights.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  QuantizeMatrixConstants c;
};
layout(std430, set = 0, binding = 1) readonly buffer X {
  vec4 x[];  // [C256 / 4]
};
layout(std430, set = 0, binding = 2) buffer Y {
  float y[];
};

#define NORMS 0
#define PARTS 1
#include "one_vector.glsl"

void main() {
  uint own = gl_LocalInvocationID.x;
  uint rows = kThreads / c.lanes;
  uint row = gl_WorkGroupID.x * rows + own;
  bool writes = own < rows && row < c.rows;
  float before = 0.0;  // comes along with the weights
  if (writes) before = y[c.first_out + row];
  float total = sum_rows((c.rows + kPanel - 1U) / kPanel * kPanel, 0U).x;
  if (writes) y[c.first_out + row] = add(before, total);
}
