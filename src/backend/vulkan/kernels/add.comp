#version 450
#extension GL_GOOGLE_include_directive : require

#include "backend/gpu/kernel_constants.hpp"

// Stage attention_residual, ffn_residual: x += branch, one thread per element.

layout(local_size_x = 256) in;

layout(push_constant) uniform Constants {
  AddConstants c;
};
layout(std430, binding = 0) buffer X {
  float x[];  // [T][stride]
};
layout(std430, binding = 1) readonly buffer Branch {
  float branch[];  // [T][stride]
};

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= c.columns) return;
  uint at = gl_WorkGroupID.y * c.stride + i;
  x[at] = add(x[at], branch[at]);
}
