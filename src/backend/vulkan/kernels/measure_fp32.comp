#version 450
#extension GL_EXT_control_flow_attributes : require
// How fast floats are multiplied and added: eight chains of multiply-adds, whose results nobody asks for.

#include "backend/gpu/kernel_constants.hpp"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  MeasureConstants c;
};
layout(std430, set = 0, binding = 0) writeonly buffer Sink {
  uint sink[];
};

void main() {
  float sums[8];
  [[unroll]] for (uint i = 0U; i < 8U; ++i) sums[i] = float(gl_GlobalInvocationID.x + i);
  for (uint round = 0U; round < c.count; ++round) {
    [[unroll]] for (uint i = 0U; i < 32U; ++i) sums[i % 8U] = fma(sums[i % 8U], 0.999, 1.5);
  }
  uint sum = 0U;
  [[unroll]] for (uint i = 0U; i < 8U; ++i) sum ^= floatBitsToUint(sums[i]);
  sink[gl_GlobalInvocationID.x] = sum;
}
