#ifndef INFERNO_MATRIX_BINDINGS_GLSL_
#define INFERNO_MATRIX_BINDINGS_GLSL_

// What the products of a matrix with vectors read and write.

#define WEIGHTS_BINDING 0
#include "weights.glsl"

layout(push_constant) uniform Constants {
  MatrixConstants c;
};
#if FORMAT == Q8
layout(std430, set = 0, binding = 1) readonly buffer Quants {
  uvec4 quants[];  // [T][C256 / 16]
};
layout(std430, set = 0, binding = 2) readonly buffer Scales {
  float scales[];  // [T][C256 / 32]
};
#define FACTORS_BINDING 3
#define Y_BINDING 4
#else
layout(std430, set = 0, binding = 1) readonly buffer X {
  vec4 x[];  // [T][C256 / 4]
};
#define FACTORS_BINDING 2
#define Y_BINDING 3
#endif
layout(std430, set = 0, binding = FACTORS_BINDING) readonly buffer Factors {
  float factors[];  // [T]
};
layout(std430, set = 0, binding = Y_BINDING) buffer Y {
  float y[];  // [T][y_stride]
};

uint place_of(uint row, uint token) {
  return token * c.y_stride + c.first_out + row;
}

// A finished row sum goes where it belongs: to what was `before` there, if it is to be added.
void write_product(uint row, uint token, float sum, float before) {
  if (c.use_factors != 0U) sum = multiply(sum, factors[token]);
  y[place_of(row, token)] = c.accumulate != 0U ? add(before, sum) : sum;
}

void write_product(uint row, uint token, float sum) {
  write_product(row, token, sum, c.accumulate != 0U ? y[place_of(row, token)] : 0.0);
}

#endif
