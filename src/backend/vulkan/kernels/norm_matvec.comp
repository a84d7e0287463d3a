#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// norm and matvec_q8 at once, for one vector.

#define WEIGHTS_BINDING 0
#include "weights.glsl"

layout(local_size_x = 128) in;
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

#define TOKENS 1U
const uint kThreads = kMatvecThreads;
#include "norm_vector.glsl"
#include "row_sums.glsl"

void main() {
  uint own = gl_LocalInvocationID.x;
  uint worker = own / kPanel;
  uint lane = worker % c.lanes;
  uint rows = kThreads / c.lanes;
  uint own_row = worker / c.lanes * kPanel + own % kPanel;
  uint first_row = gl_WorkGroupID.x * rows;
  uint row = first_row + own_row;
  bool exists = row < (c.rows + kPanel - 1U) / kPanel * kPanel;
  // On its way while the vector is normed.
  if (exists && lane < c.segments) load_segment(row, lane);
  float factor = norm_vector();
  sum_rows(row, own_row, rows, lane, c.lanes, exists);
  if (own < rows && first_row + own < c.rows) y[c.first_out + first_row + own] = multiply(row_totals[own], factor);
}
