#version 450
// Stage embedding: a workgroup copies 256 columns of a token's row out of the table.

#define WEIGHTS_BINDING 1
#include "weights.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Constants {
  EmbedConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Tokens {
  int tokens[];  // [T]
};
layout(std430, set = 0, binding = 2) writeonly buffer X {
  float x[];  // [T][D256]
};

void main() {
  uint segment = gl_WorkGroupID.x;
  uint token = gl_WorkGroupID.y;
  uint row = uint(tokens[token]) - c.first_row;  // far too large if it is before the piece
  if (row >= c.rows) return;
  uint at = segment_at(row, segment, c.segments);
  uint four = gl_LocalInvocationID.x;
#if FORMAT == Q8
  float scale = half_of(weights[at], four / 8U);
  vec4 values = four_of(weights[at + (1U + four / 4U) * kPanel][four % 4U]);
  for (uint k = 0U; k < 4U; ++k) values[k] = multiply(values[k], scale);
#else
  vec4 values = load_four(at, four);
#endif
  uint first = segment * kPadColumns + 4U * four;
  for (uint k = 0U; k < 4U; ++k) {
    if (first + k < c.columns) x[token * c.stride + first + k] = values[k];
  }
}
