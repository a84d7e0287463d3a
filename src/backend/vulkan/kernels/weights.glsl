#ifndef INFERNO_WEIGHTS_GLSL_
#define INFERNO_WEIGHTS_GLSL_

#include "backend/gpu/kernel_constants.hpp"
#include "blocks.glsl"

// Packed weights (backend/gpu/kernels.hpp): panels of 8 rows, in a panel segments of 256 columns, in a segment
// units of 16 bytes for each of the 8 rows side by side. Compiled once for each FORMAT.

#define Q8 8
#define F32 0
#define F16 1
#define BF16 30

#if FORMAT == Q8
const uint kUnits = 17U;  // eight half scales, then 16 columns each
#elif FORMAT == F32
const uint kUnits = 64U;
#else
const uint kUnits = 32U;
#endif

layout(std430, set = 0, binding = WEIGHTS_BINDING) readonly buffer Weights {
  uvec4 weights[];
};

// Where a row's units of a segment begin; they are kPanel apart.
uint segment_at(uint row, uint segment, uint segments) {
  return (row / kPanel * segments + segment) * kUnits * kPanel + row % kPanel;
}

#if FORMAT != Q8

// Columns 4 * four to 4 * four + 3 of the segment at `at`.
vec4 load_four(uint at, uint four) {
#if FORMAT == F32
  return uintBitsToFloat(weights[at + four * kPanel]);
#else
  uvec4 unit = weights[at + four / 2U * kPanel];
  uvec2 pairs = four % 2U == 0U ? unit.xy : unit.zw;
#if FORMAT == BF16
  return uintBitsToFloat(uvec4(pairs.x << 16, pairs.x & 0xFFFF0000U, pairs.y << 16, pairs.y & 0xFFFF0000U));
#else
  return vec4(half_to_float(pairs.x & 0xFFFFU), half_to_float(pairs.x >> 16), half_to_float(pairs.y & 0xFFFFU),
              half_to_float(pairs.y >> 16));
#endif
#endif
}

#endif

#endif
