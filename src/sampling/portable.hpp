#ifndef INFERNO_SAMPLING_PORTABLE_HPP_  // GLSL knows no #pragma once
#define INFERNO_SAMPLING_PORTABLE_HPP_

// What the sampler's arithmetic needs so that one text compiles as C++, CUDA and GLSL: a function
// qualifier, `uint`, the bits of a float, and the upper half of a 32 x 32 bit product. Files that include
// this use plain functions on `float` and `uint` only, and no construct that one of the three lacks.

#if defined(__cplusplus)

#include <bit>
#include <cstdint>

#if defined(__CUDACC__)
#define INFERNO_PORTABLE __host__ __device__ inline
#else
#define INFERNO_PORTABLE inline
#endif
#define INFERNO_PORTABLE_BEGIN namespace inferno::sampling {
#define INFERNO_PORTABLE_END }

namespace inferno::sampling {

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

INFERNO_PORTABLE uint multiply_high(uint a, uint b) {
  return static_cast<uint>((static_cast<std::uint64_t>(a) * b) >> 32);
}

}  // namespace inferno::sampling

#else  // GLSL

#define INFERNO_PORTABLE
#define INFERNO_PORTABLE_BEGIN
#define INFERNO_PORTABLE_END

uint float_bits(float value) {
  return floatBitsToUint(value);
}
float float_from_bits(uint bits) {
  return uintBitsToFloat(bits);
}

uint multiply_high(uint a, uint b) {
  uint high;
  uint low;
  umulExtended(a, b, high, low);
  return high;
}

#endif

#endif  // INFERNO_SAMPLING_PORTABLE_HPP_
