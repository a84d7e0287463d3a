#version 450
// Stages attention_residual and ffn_residual, where the product did not add by itself.

#include "backend/gpu/kernel_constants.hpp"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  AddConstants c;
};
layout(std430, set = 0, binding = 0) buffer X {
  float x[];  // [T][W256]
};
layout(std430, set = 0, binding = 1) readonly buffer Branch {
  float branch[];  // [T][W256]
};

void main() {
  uint column = gl_GlobalInvocationID.x;
  if (column >= c.columns) return;
  uint at = gl_WorkGroupID.y * c.stride + column;
  x[at] = add(x[at], branch[at]);
}
