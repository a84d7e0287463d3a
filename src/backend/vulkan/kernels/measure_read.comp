#version 450
#extension GL_EXT_control_flow_attributes : require
// How fast memory is read: a workgroup reads kMeasureUnits times 16 bytes for each of its invocations.

#include "backend/gpu/kernel_constants.hpp"

layout(local_size_x = 256) in;
layout(push_constant) uniform Constants {
  MeasureConstants c;
};
layout(std430, set = 0, binding = 0) readonly buffer Data {
  uvec4 data[];
};
layout(std430, set = 0, binding = 1) writeonly buffer Sink {
  uint sink[];  // of each invocation, so that nothing is left out
};

void main() {
  uint at = gl_WorkGroupID.x * kMeasureThreads * kMeasureUnits + gl_LocalInvocationID.x;
  uvec4 sum = uvec4(0U);
  [[unroll]] for (uint i = 0U; i < kMeasureUnits; ++i) sum ^= data[at + i * kMeasureThreads];
  sink[gl_GlobalInvocationID.x] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}
