#version 450
// Rows of a float matrix times many vectors: 64 rows and 64 tokens for a workgroup, a row and every fourth token
// for an invocation.

#include "matrix_bindings.glsl"

layout(local_size_x = 256) in;
#include "segment_sums.glsl"

void main() {
  uint row = gl_WorkGroupID.x * kMatmulRows + gl_LocalInvocationID.x % kMatmulRows;
  if (row >= c.rows) return;
  uint first_token = gl_WorkGroupID.y * kMatmulTokens;
  uint end = min(first_token + kMatmulTokens, c.tokens);
  for (uint token = first_token + gl_LocalInvocationID.x / kMatmulRows; token < end; token += 4U) {
    float total = 0.0;
    for (uint segment = 0U; segment < c.segments; ++segment) total = add(total, segment_sum(row, segment, token));
    write_product(row, token, total);
  }
}
