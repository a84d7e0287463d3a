#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef INFERNO_INTEGER_DOT
#extension GL_EXT_spirv_intrinsics : require
#endif
// How fast int8 are multiplied: eight chains of sums of four products.

#include "backend/gpu/kernel_constants.hpp"
#include "blocks.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  MeasureConstants c;
};
layout(std430, set = 0, binding = 0) writeonly buffer Sink {
  int sink[];
};

void main() {
  int sums[8];
  [[unroll]] for (uint i = 0U; i < 8U; ++i) sums[i] = int(gl_GlobalInvocationID.x + i);
  for (uint round = 0U; round < c.count; ++round) {
    [[unroll]] for (uint i = 0U; i < 32U; ++i) sums[i % 8U] += dot4(uint(sums[i % 8U]), 0x01FE03FCU + round);
  }
  sink[gl_GlobalInvocationID.x] = (sums[0] ^ sums[1]) + (sums[2] ^ sums[3]) + (sums[4] ^ sums[5]) + (sums[6] ^ sums[7]);
}
