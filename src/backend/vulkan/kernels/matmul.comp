#version 450
// Rows of a matrix times many vectors, a tile of 64 rows and 64 tokens for a workgroup, 4 x 4 for an invocation.
// A block of 32 columns at a time goes to shared memory as floats: sums of 32 products of int8 are below 2^24, so
// float multiply-adds are exact, and they are the widest arithmetic that every device has.

#include "matrix_bindings.glsl"

layout(local_size_x = 256) in;

const uint kColumns = 32U;
const uint kFours = 16U;  // of rows, and of tokens
shared vec4 tile_w[kColumns][kFours];
shared vec4 tile_x[kColumns][kFours];
shared vec4 scales_w[kFours];
shared vec4 scales_x[kFours];

void main() {
  uint own = gl_LocalInvocationID.x;
  // What this invocation brings: 16 columns of a row (lower half of the workgroup) or of a token.
  bool brings_row = own < 128U;
  uint brought = own % 64U;
  uint half_block = own / 64U % 2U;
  uint row = gl_WorkGroupID.x * kMatmulRows + brought;
  uint token = gl_WorkGroupID.y * kMatmulTokens + brought;
  bool exists = brings_row ? row < (c.rows + kPanel - 1U) / kPanel * kPanel : token < c.tokens;
  // What it computes.
  uint four_rows = own % kFours;
  uint four_tokens = own / kFours;

  vec4 totals[4];
  for (uint j = 0U; j < 4U; ++j) totals[j] = vec4(0.0);
  for (uint segment = 0U; segment < c.segments; ++segment) {
    vec4 sums[4];  // of the segment: [tokens] of four rows
    for (uint j = 0U; j < 4U; ++j) sums[j] = vec4(0.0);
    for (uint b = 0U; b < 8U; ++b) {
      uvec4 words = uvec4(0U);
      float scale = 0.0;
      if (exists) {
        if (brings_row) {
          uint at = segment_at(row, segment, c.segments);
          words = weights[at + (1U + 2U * b + half_block) * kPanel];
          scale = half_of(weights[at], b);
        } else {
          uint block = (token * c.segments + segment) * 8U + b;
          words = quants[2U * block + half_block];
          scale = scales[block];
        }
      }
      barrier();
      for (uint k = 0U; k < 16U; ++k) {
        float value = float(byte_of(words[k / 4U], k % 4U));
        if (brings_row) {
          tile_w[16U * half_block + k][brought / 4U][brought % 4U] = value;
        } else {
          tile_x[16U * half_block + k][brought / 4U][brought % 4U] = value;
        }
      }
      if (half_block == 0U) {
        if (brings_row) {
          scales_w[brought / 4U][brought % 4U] = scale;
        } else {
          scales_x[brought / 4U][brought % 4U] = scale;
        }
      }
      barrier();
      vec4 dots[4];
      for (uint j = 0U; j < 4U; ++j) dots[j] = vec4(0.0);
      for (uint k = 0U; k < kColumns; ++k) {
        vec4 w = tile_w[k][four_rows];
        vec4 x = tile_x[k][four_tokens];
        for (uint j = 0U; j < 4U; ++j) dots[j] = fma(w, vec4(x[j]), dots[j]);
      }
      vec4 w_scales = scales_w[four_rows];
      vec4 x_scales = scales_x[four_tokens];
      for (uint j = 0U; j < 4U; ++j) {
        precise vec4 scaled = dots[j] * w_scales;
        precise vec4 term = scaled * x_scales[j];
        precise vec4 sum = sums[j] + term;
        sums[j] = sum;
      }
    }
    for (uint j = 0U; j < 4U; ++j) {
      precise vec4 total = totals[j] + sums[j];
      totals[j] = total;
    }
  }
  for (uint j = 0U; j < 4U; ++j) {
    uint y_token = gl_WorkGroupID.y * kMatmulTokens + 4U * four_tokens + j;
    uint y_row = gl_WorkGroupID.x * kMatmulRows + 4U * four_rows;
    if (y_token >= c.tokens) break;
    for (uint i = 0U; i < 4U; ++i) {
      if (y_row + i < c.rows) write_product(y_row + i, y_token, totals[j][i]);
    }
  }
}
