#ifndef INFERNO_MERGE_SPLITS_GLSL_
#define INFERNO_MERGE_SPLITS_GLSL_

// Four dimensions of a head, its splits merged in ascending order. Splits begin at `from` in statistics, the four
// dimensions at `d` in each split's output. Needs statistics, outputs and the constant padded_dim.
vec4 merged_four(uint from, uint splits, uint d) {
  float maximum = statistics[from].x;
  for (uint s = 1U; s < splits; ++s) {
    float other = statistics[from + s].x;
    maximum = other > maximum ? other : maximum;
  }
  vec4 sum = vec4(0.0);
  float denominator = 0.0;
  for (uint s = 0U; s < splits; ++s) {
    vec2 of_split = statistics[from + s];
    float factor = exponential(subtract(of_split.x, maximum));
    denominator = add(denominator, multiply(factor, of_split.y));
    precise vec4 scaled = outputs[((from + s) * c.padded_dim + d) / 4U] * vec4(factor);
    precise vec4 next = sum + scaled;
    sum = next;
  }
  precise vec4 result = sum * vec4(reciprocal(denominator));
  return result;
}

#endif
