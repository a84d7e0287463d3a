#version 450
// Stage attention, part two: the splits of one head of one token, merged in ascending order.

#include "backend/gpu/kernel_constants.hpp"

#define QUANTIZE_THREADS 64
#include "quantize_block.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Constants {
  MergeConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Statistics {
  vec2 statistics[];  // [T'][H][max_splits]: maximum, denominator
};
layout(std430, set = 0, binding = 1) readonly buffer Outputs {
  vec4 outputs[];  // [T'][H][max_splits][E32 / 4]
};
layout(std430, set = 0, binding = 2) readonly buffer Positions {
  uint positions[];  // [T]
};
layout(std430, set = 0, binding = 3) writeonly buffer Mixed {
  float mixed[];  // [T][stride]
};
layout(std430, set = 0, binding = 4) writeonly buffer Quants {
  uint quants[];  // [T][stride / 4]
};
layout(std430, set = 0, binding = 5) writeonly buffer Scales {
  float scales[];  // [T][stride / 32]
};

#include "merge_splits.glsl"

void main() {
  uint head = gl_WorkGroupID.x;
  uint token = c.first_token + gl_WorkGroupID.y;
  uint from = (gl_WorkGroupID.y * c.heads + head) * c.max_splits;
  uint splits = positions[token] / uint(kSplit) + 1U;
  for (uint first = 0U; first < c.padded_dim; first += 256U) {
    uint d = first + 4U * gl_LocalInvocationID.x;
    bool exists = d < c.padded_dim;
    vec4 merged = exists ? merged_four(from, splits, d) : vec4(0.0);
    uint at = token * c.stride + head * c.head_dim + d;
    if ((c.write & kWriteFloats) != 0U) {
      for (uint k = 0U; k < 4U; ++k) {
        if (d + k < c.head_dim) mixed[at + k] = merged[k];
      }
    }
    if ((c.write & kWriteQuants) != 0U) {
      QuantizedFour four = quantize_four(merged);
      if (d < c.head_dim) {
        quants[at / 4U] = four.word;
        if (d % 32U == 0U) scales[at / 32U] = four.scale;
      }
    }
  }
}
