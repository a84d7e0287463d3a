#version 450
// Rows of a float matrix times many vectors: 64 rows and 64 tokens for a workgroup, a row and four tokens at a
// time for an invocation.

#include "matrix_bindings.glsl"

layout(local_size_x = 256) in;

#define SEGMENT_SUMS segment_sums
#define SEGMENT_TOKENS 4
#include "segment_sums.glsl"

void main() {
  uint row = gl_WorkGroupID.x * kMatmulRows + gl_LocalInvocationID.x % kMatmulRows;
  if (row >= c.rows) return;
  uint first_token = gl_WorkGroupID.y * kMatmulTokens;
  uint end = min(first_token + kMatmulTokens, c.tokens);
  for (uint token = first_token + gl_LocalInvocationID.x / kMatmulRows * 4U; token < end; token += 16U) {
    uint tokens = min(4U, end - token);
    vec4 totals = vec4(0.0);
    for (uint segment = 0U; segment < c.segments; ++segment) {
      float sums[4];
      segment_sums(segment_at(row, segment, c.segments), segment, token, tokens, sums);
      for (uint t = 0U; t < 4U; ++t) totals[t] = add(totals[t], sums[t]);
    }
    for (uint t = 0U; t < tokens; ++t) write_product(row, token + t, totals[t]);
  }
}
