// One segment of one row times kTokens vectors, `tokens` of which exist; included once for each number, with
// SEGMENT_SUMS the function's name and SEGMENT_TOKENS the number.

void SEGMENT_SUMS(uint at, uint segment, uint first_token, uint tokens, out float sums[SEGMENT_TOKENS]) {
#if FORMAT == Q8
  for (uint t = 0U; t < SEGMENT_TOKENS; ++t) sums[t] = 0.0;
  uvec4 halves = weights[at];
  for (uint b = 0U; b < 8U; ++b) {
    uvec4 low = weights[at + (1U + 2U * b) * kPanel];
    uvec4 high = weights[at + (2U + 2U * b) * kPanel];
    float scale = half_of(halves, b);
    for (uint t = 0U; t < SEGMENT_TOKENS; ++t) {
      if (t < tokens) {
        uint block = ((first_token + t) * c.segments + segment) * 8U + b;
        int dot = dot16(low, quants[2U * block]) + dot16(high, quants[2U * block + 1U]);
        sums[t] = add(sums[t], multiply(multiply(to_float(dot), scale), scales[block]));
      }
    }
  }
#else
  // 16 partial sums, number j of columns j, j + 16, ..., then a tree.
  vec4 strided[SEGMENT_TOKENS][4];
  for (uint t = 0U; t < SEGMENT_TOKENS; ++t) {
    for (uint j = 0U; j < 4U; ++j) strided[t][j] = vec4(0.0);
  }
  for (uint group = 0U; group < 16U; ++group) {
    for (uint j = 0U; j < 4U; ++j) {
      vec4 w = load_four(at, 4U * group + j);
      for (uint t = 0U; t < SEGMENT_TOKENS; ++t) {
        if (t < tokens) {
          precise vec4 product = w * x[((first_token + t) * c.segments + segment) * 64U + 4U * group + j];
          precise vec4 sum = strided[t][j] + product;
          strided[t][j] = sum;
        }
      }
    }
  }
  for (uint t = 0U; t < SEGMENT_TOKENS; ++t) {
    precise vec4 low = strided[t][0] + strided[t][2];
    precise vec4 high = strided[t][1] + strided[t][3];
    precise vec4 four = low + high;
    precise vec2 two = four.xy + four.zw;
    sums[t] = add(two.x, two.y);
  }
#endif
}
