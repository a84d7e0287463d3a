#version 450
// Stage argmax, first pass: the best of kArgmaxChunk logits.

#include "backend/gpu/kernel_constants.hpp"
#include "best.glsl"
#include "sampling/fixed_exp.hpp"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  ArgmaxConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Logits {
  float logits[];  // [rows][stride]
};
layout(std430, set = 0, binding = 1) writeonly buffer Best {
  uvec2 best[];  // [rows][chunks]
};

void main() {
  uint chunk = gl_WorkGroupID.x;
  uint row = gl_WorkGroupID.y;
  uvec2 own = kNoBest;
  for (uint i = gl_LocalInvocationID.x; i < kArgmaxChunk; i += kBestThreads) {
    uint index = chunk * kArgmaxChunk + i;
    if (index >= c.columns) break;
    float logit = logits[row * c.stride + index];
    bool nan = (float_bits(logit) & 0x7FFFFFFFU) > 0x7F800000U;
    own = better(own, uvec2(nan ? kNanKey : order_key(logit), index));
  }
  own = best_of_workgroup(own);
  if (gl_LocalInvocationID.x == 0U) best[row * c.chunks + chunk] = own;
}
