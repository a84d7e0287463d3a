#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// norm, gate and up (matvec_q8) and swiglu at once, for one vector: a workgroup has rows of the gate and the same
// rows of up.

#define WEIGHTS_BINDING 0
#include "weights.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  NormSwigluConstants c;
};
layout(std430, set = 0, binding = 1) readonly buffer X {
  vec4 x[];  // [D256 / 4]
};
layout(std430, set = 0, binding = 2) readonly buffer Weight {
  vec4 weight[];  // [D256 / 4]
};
layout(std430, set = 0, binding = 3) writeonly buffer Activated {
  float activated[];  // [F256]
};

#define NORMS 1
#define PARTS 2
#include "one_vector.glsl"

void main() {
  uint own = gl_LocalInvocationID.x;
  uint rows = kThreads / c.lanes;
  vec2 totals = sum_rows(c.rows, c.rows);
  uint row = gl_WorkGroupID.x * rows + own;
  if (own < rows && row < c.rows)
    activated[row] = swiglu(multiply(totals.x, norm_factor), multiply(totals.y, norm_factor));
}
