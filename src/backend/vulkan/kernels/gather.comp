#version 450
// Copies the rows that go on to the final norm.

#include "backend/gpu/kernel_constants.hpp"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  GatherConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer X {
  float x[];  // [T][D256]
};
layout(std430, set = 0, binding = 1) readonly buffer Map {
  uint map[];  // [rows]
};
layout(std430, set = 0, binding = 2) writeonly buffer Target {
  float target[];  // [rows][D256]
};

void main() {
  uint column = gl_GlobalInvocationID.x;
  uint row = gl_WorkGroupID.y;
  if (column < c.columns) target[row * c.stride + column] = x[map[row] * c.stride + column];
}
