#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// Rows of a matrix times many vectors, a tile of 64 rows and 64 tokens for a workgroup, 4 x 4 for an invocation.
// A block of 32 columns at a time goes to shared memory, as words of four int8 where there is an instruction for
// their products, else as floats: sums of 32 products of int8 are below 2^24, so float multiply-adds are exact, and
// they are the widest arithmetic that every device has.

#include "matrix_bindings.glsl"

layout(local_size_x = 256) in;

const uint kFours = 16U;  // of rows, and of tokens
#ifdef INFERNO_INTEGER_DOT
const uint kSteps = 8U;  // of a block: four columns each
shared uvec4 tile_w[kSteps][kFours];
shared uvec4 tile_x[kSteps][kFours];
#else
const uint kSteps = 32U;
shared vec4 tile_w[kSteps][kFours];
shared vec4 tile_x[kSteps][kFours];
#endif
shared vec4 scales_w[kFours];
shared vec4 scales_x[kFours];

// What an invocation has brought: 16 columns of a block, of a row (lower half of the workgroup) or of a token, and
// the block's scale.
uvec4 brought_words;
float brought_scale;

bool brings_row() {
  return gl_LocalInvocationID.x < 128U;
}
uint brought_number() {
  return gl_LocalInvocationID.x % 64U;
}
uint brought_half() {
  return gl_LocalInvocationID.x / 64U % 2U;
}

void bring(uint row, uint token, uint block) {
  brought_words = uvec4(0U);
  brought_scale = 0.0;
  if (brings_row()) {
    if (row >= (c.rows + kPanel - 1U) / kPanel * kPanel) return;
    uint at = segment_at(row, block / 8U, c.segments);
    brought_words = weights[at + (1U + 2U * (block % 8U) + brought_half()) * kPanel];
    brought_scale = half_of(weights[at], block % 8U);
  } else {
    if (token >= c.tokens) return;
    uint at = token * c.segments * 8U + block;
    brought_words = quants[2U * at + brought_half()];
    brought_scale = scales[at];
  }
}

void put_down() {
  uint four = brought_number() / 4U;
  uint place = brought_number() % 4U;
#ifdef INFERNO_INTEGER_DOT
  [[unroll]] for (uint i = 0U; i < 4U; ++i) {
    uint value = brought_words[i];
#else
  [[unroll]] for (uint i = 0U; i < 16U; ++i) {
    float value = float(byte_of(brought_words[i / 4U], i % 4U));
#endif
    uint at = kSteps / 2U * brought_half() + i;
    if (brings_row()) {
      tile_w[at][four][place] = value;
    } else {
      tile_x[at][four][place] = value;
    }
  }
  if (brought_half() != 0U) return;
  if (brings_row()) {
    scales_w[four][place] = brought_scale;
  } else {
    scales_x[four][place] = brought_scale;
  }
}

// Four rows times four tokens, exact: dots[j] of token j.
void multiply_tile(uint four_rows, uint four_tokens, out vec4 dots_0, out vec4 dots_1, out vec4 dots_2,
                   out vec4 dots_3) {
#ifdef INFERNO_INTEGER_DOT
  ivec4 sums_0 = ivec4(0);
  ivec4 sums_1 = ivec4(0);
  ivec4 sums_2 = ivec4(0);
  ivec4 sums_3 = ivec4(0);
  [[unroll]] for (uint step = 0U; step < kSteps; ++step) {
    uvec4 w = tile_w[step][four_rows];
    uvec4 x = tile_x[step][four_tokens];
    sums_0 += ivec4(dot4(w.x, x.x), dot4(w.y, x.x), dot4(w.z, x.x), dot4(w.w, x.x));
    sums_1 += ivec4(dot4(w.x, x.y), dot4(w.y, x.y), dot4(w.z, x.y), dot4(w.w, x.y));
    sums_2 += ivec4(dot4(w.x, x.z), dot4(w.y, x.z), dot4(w.z, x.z), dot4(w.w, x.z));
    sums_3 += ivec4(dot4(w.x, x.w), dot4(w.y, x.w), dot4(w.z, x.w), dot4(w.w, x.w));
  }
  dots_0 = vec4(sums_0);
  dots_1 = vec4(sums_1);
  dots_2 = vec4(sums_2);
  dots_3 = vec4(sums_3);
#else
  dots_0 = vec4(0.0);
  dots_1 = vec4(0.0);
  dots_2 = vec4(0.0);
  dots_3 = vec4(0.0);
  // Unrolled although it adds floats: fma has no rounding to lose here.
  [[unroll]] for (uint step = 0U; step < kSteps; ++step) {
    vec4 w = tile_w[step][four_rows];
    vec4 x = tile_x[step][four_tokens];
    dots_0 = fma(w, x.xxxx, dots_0);
    dots_1 = fma(w, x.yyyy, dots_1);
    dots_2 = fma(w, x.zzzz, dots_2);
    dots_3 = fma(w, x.wwww, dots_3);
  }
#endif
}

vec4 add_scaled(vec4 sums, vec4 dots, vec4 w_scales, float x_scale) {
  precise vec4 scaled = dots * w_scales;
  precise vec4 terms = scaled * vec4(x_scale);
  precise vec4 result = sums + terms;
  return result;
}

vec4 add_four(vec4 a, vec4 b) {
  precise vec4 result = a + b;
  return result;
}

void write_four(uint first_row, uint token, vec4 products) {
  if (token >= c.tokens) return;
  for (uint i = 0U; i < 4U; ++i) {
    if (first_row + i < c.rows) write_product(first_row + i, token, products[i]);
  }
}

void main() {
  uint own = gl_LocalInvocationID.x;
  uint row = gl_WorkGroupID.x * kMatmulRows + brought_number();
  uint token = gl_WorkGroupID.y * kMatmulTokens + brought_number();
  // What it computes.
  uint four_rows = own % kFours;
  uint four_tokens = own / kFours;

  // Of four rows each, for four tokens: of the segment and of all before it.
  vec4 sums_0 = vec4(0.0);
  vec4 sums_1 = vec4(0.0);
  vec4 sums_2 = vec4(0.0);
  vec4 sums_3 = vec4(0.0);
  vec4 totals_0 = vec4(0.0);
  vec4 totals_1 = vec4(0.0);
  vec4 totals_2 = vec4(0.0);
  vec4 totals_3 = vec4(0.0);
  uint blocks = 8U * c.segments;
  bring(row, token, 0U);
  for (uint block = 0U; block < blocks; ++block) {
    barrier();  // the block before has been used
    put_down();
    barrier();
    if (block + 1U < blocks) bring(row, token, block + 1U);  // on its way while this one is multiplied
    vec4 dots_0;
    vec4 dots_1;
    vec4 dots_2;
    vec4 dots_3;
    multiply_tile(four_rows, four_tokens, dots_0, dots_1, dots_2, dots_3);
    vec4 w_scales = scales_w[four_rows];
    vec4 x_scales = scales_x[four_tokens];
    sums_0 = add_scaled(sums_0, dots_0, w_scales, x_scales.x);
    sums_1 = add_scaled(sums_1, dots_1, w_scales, x_scales.y);
    sums_2 = add_scaled(sums_2, dots_2, w_scales, x_scales.z);
    sums_3 = add_scaled(sums_3, dots_3, w_scales, x_scales.w);
    if (block % 8U != 7U) continue;
    totals_0 = add_four(totals_0, sums_0);
    totals_1 = add_four(totals_1, sums_1);
    totals_2 = add_four(totals_2, sums_2);
    totals_3 = add_four(totals_3, sums_3);
    sums_0 = vec4(0.0);
    sums_1 = vec4(0.0);
    sums_2 = vec4(0.0);
    sums_3 = vec4(0.0);
  }
  uint y_row = gl_WorkGroupID.x * kMatmulRows + 4U * four_rows;
  uint y_token = gl_WorkGroupID.y * kMatmulTokens + 4U * four_tokens;
  write_four(y_row, y_token, totals_0);
  write_four(y_row, y_token + 1U, totals_1);
  write_four(y_row, y_token + 2U, totals_2);
  write_four(y_row, y_token + 3U, totals_3);
}
