#ifndef INFERNO_BLOCKS_GLSL_
#define INFERNO_BLOCKS_GLSL_

#include "arith/quantize.hpp"

// Blocks of 32 int8 in two uvec4: element i stands in byte i % 4 of word i / 4. Halves.

// Four products of int8, exact either way. The instruction for it is an extension that not every device has, so
// kernels are compiled without and with it.
#ifdef INFERNO_INTEGER_DOT
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot_product(uint a, uint b, spirv_literal int packed_format);

spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4452)
int mixed_dot_product(uint signed_bytes, uint unsigned_bytes, spirv_literal int packed_format);

int dot4(uint a, uint b) {
  return dot_product(a, b, 0);  // PackedVectorFormat4x8Bit
}

// The bytes of b are unsigned.
int dot4_unsigned(uint a, uint b) {
  return mixed_dot_product(a, b, 0);
}
#else
int dot4(uint a, uint b) {
  int x = int(a);
  int y = int(b);
  return bitfieldExtract(x, 0, 8) * bitfieldExtract(y, 0, 8) + bitfieldExtract(x, 8, 8) * bitfieldExtract(y, 8, 8) +
         bitfieldExtract(x, 16, 8) * bitfieldExtract(y, 16, 8) + (x >> 24) * (y >> 24);
}
#endif

int dot16(uvec4 a, uvec4 b) {
  return dot4(a.x, b.x) + dot4(a.y, b.y) + dot4(a.z, b.z) + dot4(a.w, b.w);
}

int byte_of(uint word, uint index) {
  return bitfieldExtract(int(word), int(8U * index), 8);
}

// Four int8 as floats, exact.
vec4 four_of(uint word) {
  return vec4(float(byte_of(word, 0U)), float(byte_of(word, 1U)), float(byte_of(word, 2U)), float(byte_of(word, 3U)));
}

// Exact, subnormals included: unpackHalf2x16 may flush those.
float half_to_float(uint half_bits) {
  uint sign = (half_bits & 0x8000U) << 16;
  uint exponent = half_bits >> 10 & 0x1FU;
  uint mantissa = half_bits & 0x3FFU;
  uint small = float_bits(multiply(float(mantissa), 5.9604644775390625e-8));  // 2^-24
  uint large = (exponent == 0x1FU ? 0x7F800000U : (exponent + 112U) << 23) | mantissa << 13;
  return float_from_bits(sign | (exponent == 0U ? small : large));
}

// Half number `index` of eight.
float half_of(uvec4 halves, uint index) {
  return half_to_float(halves[index / 2U] >> (16U * (index % 2U)) & 0xFFFFU);
}

#endif
