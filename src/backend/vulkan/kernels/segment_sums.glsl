#ifndef INFERNO_SEGMENT_SUMS_GLSL_
#define INFERNO_SEGMENT_SUMS_GLSL_

// Sums of one segment of one row times a few vectors. What the vectors are read from is for the file that includes
// this to declare: `quants` and `scales`, or `x` for float weights.
//
// Loops over float sums are spelled out: glslc -O loses `precise` when it unrolls them, and sums that stay in an
// array are slow where the driver does not.

#if FORMAT == Q8

uvec4 units[kUnits];  // of the row's segment: eight half scales, two units for each block

void load_segment(uint row, uint segment) {
  uint at = segment_at(row, segment, c.segments);
  [[unroll]] for (uint i = 0U; i < kUnits; ++i) units[i] = weights[at + i * kPanel];
}

float add_block(float sum, uvec4 low, uvec4 high, float scale, uint block) {
  int dot = dot16(low, quants[2U * block]) + dot16(high, quants[2U * block + 1U]);
  return add(sum, multiply(multiply(to_float(dot), scale), scales[block]));
}

// Of the segment in `units`, times vector `token`.
float segment_sum(uint segment, uint token) {
  uint block = (token * c.segments + segment) * 8U;
  float sum = add_block(0.0, units[1], units[2], half_of(units[0], 0U), block);
  sum = add_block(sum, units[3], units[4], half_of(units[0], 1U), block + 1U);
  sum = add_block(sum, units[5], units[6], half_of(units[0], 2U), block + 2U);
  sum = add_block(sum, units[7], units[8], half_of(units[0], 3U), block + 3U);
  sum = add_block(sum, units[9], units[10], half_of(units[0], 4U), block + 4U);
  sum = add_block(sum, units[11], units[12], half_of(units[0], 5U), block + 5U);
  sum = add_block(sum, units[13], units[14], half_of(units[0], 6U), block + 6U);
  return add_block(sum, units[15], units[16], half_of(units[0], 7U), block + 7U);
}

#else

vec4 add_products(vec4 sums, vec4 w, uint x_at) {
  precise vec4 products = w * x[x_at];
  precise vec4 result = sums + products;
  return result;
}

// 16 partial sums, number j of columns j, j + 16, ..., then a tree.
float segment_sum(uint row, uint segment, uint token) {
  uint at = segment_at(row, segment, c.segments);
  uint x_at = (token * c.segments + segment) * 64U;
  vec4 sums_0 = vec4(0.0);
  vec4 sums_4 = vec4(0.0);
  vec4 sums_8 = vec4(0.0);
  vec4 sums_12 = vec4(0.0);
  for (uint four = 0U; four < 64U; four += 4U) {
    sums_0 = add_products(sums_0, load_four(at, four), x_at + four);
    sums_4 = add_products(sums_4, load_four(at, four + 1U), x_at + four + 1U);
    sums_8 = add_products(sums_8, load_four(at, four + 2U), x_at + four + 2U);
    sums_12 = add_products(sums_12, load_four(at, four + 3U), x_at + four + 3U);
  }
  precise vec4 low = sums_0 + sums_8;
  precise vec4 high = sums_4 + sums_12;
  precise vec4 four_sums = low + high;
  precise vec2 two_sums = four_sums.xy + four_sums.zw;
  return add(two_sums.x, two_sums.y);
}

#endif

#endif
