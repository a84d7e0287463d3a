#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// norm and matvec_q8 at once, for one vector.

#define WEIGHTS_BINDING 0
#include "weights.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  NormMatrixConstants c;
};
layout(std430, set = 0, binding = 1) readonly buffer X {
  vec4 x[];  // [D256 / 4]
};
layout(std430, set = 0, binding = 2) readonly buffer Weight {
  vec4 weight[];  // [D256 / 4]
};
layout(std430, set = 0, binding = 3) writeonly buffer Y {
  float y[];
};

#define NORMS 1
#define PARTS 1
#include "one_vector.glsl"

void main() {
  uint own = gl_LocalInvocationID.x;
  uint rows = kThreads / c.lanes;
  float total = sum_rows((c.rows + kPanel - 1U) / kPanel * kPanel, 0U).x;
  uint row = gl_WorkGroupID.x * rows + own;
  if (own < rows && row < c.rows) y[c.first_out + row] = multiply(total, norm_factor);
}
