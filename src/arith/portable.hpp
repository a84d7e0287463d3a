#ifndef INFERNO_ARITH_PORTABLE_HPP_  // GLSL knows no #pragma once
#define INFERNO_ARITH_PORTABLE_HPP_

// The ground that the arithmetic contract stands on: one text that compiles as C++, CUDA and GLSL. Files that
// include this use plain functions on `float`, `int` and `uint` only, and no construct that one of the three
// lacks.
//
// Float operations are spelled add, subtract and multiply. Each rounds once, to nearest even, and is never
// contracted into a multiply-add: C++ is compiled with -ffp-contract=off, CUDA uses the intrinsics that are
// exempt from contraction, GLSL marks every result `precise`. Written with operators, one unguarded sum made
// 3 % of results differ on NVIDIA's driver.

#if defined(__cplusplus)

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define INFERNO_PORTABLE __host__ __device__ inline
#else
#define INFERNO_PORTABLE inline
#endif
// Text between these stands in inferno::room; GLSL has no namespaces.
#define INFERNO_PORTABLE_BEGIN(room) namespace inferno::room {
#define INFERNO_PORTABLE_END }

namespace inferno::arith {

using uint = std::uint32_t;

INFERNO_PORTABLE uint float_bits(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  return std::bit_cast<uint>(value);
#endif
}

INFERNO_PORTABLE float float_from_bits(uint bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

INFERNO_PORTABLE float add(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

INFERNO_PORTABLE float subtract(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fsub_rn(a, b);
#else
  return a - b;
#endif
}

INFERNO_PORTABLE float multiply(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

INFERNO_PORTABLE uint multiply_high(uint a, uint b) {
  return static_cast<uint>((static_cast<std::uint64_t>(a) * b) >> 32U);
}

INFERNO_PORTABLE int as_int(uint value) {
  return static_cast<int>(value);
}
INFERNO_PORTABLE uint as_uint(int value) {
  return static_cast<uint>(value);
}
INFERNO_PORTABLE float to_float(int value) {
  return static_cast<float>(value);
}

}  // namespace inferno::arith

#else  // GLSL

#define INFERNO_PORTABLE
#define INFERNO_PORTABLE_BEGIN(room)
#define INFERNO_PORTABLE_END

uint float_bits(float value) {
  return floatBitsToUint(value);
}
float float_from_bits(uint bits) {
  return uintBitsToFloat(bits);
}

float add(float a, float b) {
  precise float sum = a + b;
  return sum;
}
float subtract(float a, float b) {
  precise float difference = a - b;
  return difference;
}
float multiply(float a, float b) {
  precise float product = a * b;
  return product;
}

uint multiply_high(uint a, uint b) {
  uint high;
  uint low;
  umulExtended(a, b, high, low);
  return high;
}

int as_int(uint value) {
  return int(value);
}
uint as_uint(int value) {
  return uint(value);
}
float to_float(int value) {
  return float(value);
}

#endif

#endif  // INFERNO_ARITH_PORTABLE_HPP_
