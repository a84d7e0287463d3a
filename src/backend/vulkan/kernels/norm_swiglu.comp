#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// norm, gate and up (matvec_q8) and swiglu at once, for one vector: a workgroup makes a block of 32 elements from
// 32 rows of the gate and the same rows of up.

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
layout(std430, set = 0, binding = 3) writeonly buffer Quants {
  uint activated_quants[];  // [F256 / 4]
};
layout(std430, set = 0, binding = 4) writeonly buffer Scales {
  float activated_scales[];  // [F256 / 32]
};

#define TOKENS 1U
const uint kThreads = 256U;
#include "norm_vector.glsl"
#include "row_sums.glsl"

const uint kLanes = 4U;  // 32 workers have 8 panels
const uint kRows = 64U;  // 32 of the gate, 32 of up

void main() {
  uint own = gl_LocalInvocationID.x;
  uint worker = own / kPanel;
  uint lane = worker % kLanes;
  uint own_row = worker / kLanes * kPanel + own % kPanel;
  uint element = gl_WorkGroupID.x * 32U + own_row % 32U;
  bool exists = element < c.rows;
  uint row = own_row < 32U ? element : c.rows + element;
  if (exists && lane < c.segments) load_segment(row, lane);
  float factor = norm_vector();
  sum_rows(row, own_row, kRows, lane, kLanes, exists);
  vec4 values = vec4(0.0);
  if (own < 8U) {
    for (uint k = 0U; k < 4U; ++k) {
      uint i = 4U * own + k;
      if (gl_WorkGroupID.x * 32U + i < c.rows)
        values[k] = swiglu(multiply(row_totals[i], factor), multiply(row_totals[32U + i], factor));
    }
  }
  QuantizedFour four = quantize_four(values);
  if (own < 8U) activated_quants[gl_WorkGroupID.x * 8U + own] = four.word;
  if (own == 0U) activated_scales[gl_WorkGroupID.x] = four.scale;
}
