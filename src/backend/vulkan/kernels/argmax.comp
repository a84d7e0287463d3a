#version 450
// Stage argmax, second pass: the best of the chunks' best.

#include "backend/gpu/kernel_constants.hpp"
#include "best.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  ArgmaxConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Best {
  uvec2 best[];  // [rows][chunks]
};
layout(std430, set = 0, binding = 1) writeonly buffer Chosen {
  uint chosen[];  // [rows]
};

void main() {
  uint row = gl_WorkGroupID.y;
  uvec2 own = kNoBest;
  for (uint i = gl_LocalInvocationID.x; i < c.chunks; i += kBestThreads)
    own = better(own, best[row * c.chunks + i]);
  own = best_of_workgroup(own);
  if (gl_LocalInvocationID.x == 0U) chosen[row] = own.x == kNanKey ? kNothingChosen : own.y;
}
