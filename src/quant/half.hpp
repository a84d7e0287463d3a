#pragma once

#include <bit>
#include <cstdint>

/// Half-width floats in software: exact on every value and the same on every processor. Hardware
/// conversions were rejected because they are not everywhere and treat NaN payloads each in their own way.
namespace inferno::quant {

/// IEEE binary16 to binary32; exact, subnormals, infinities and NaN payloads included.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000U} << 16U;
  const std::uint32_t exponent = (half >> 10U) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (mantissa << 13U));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (mantissa << 13U));
  // Zero and subnormals: mantissa * 2^-24, a normal binary32, so the product is exact.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

/// binary32 to binary16, round to nearest even; too large becomes infinity, NaN a quiet NaN.
inline std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000U) {
    half = 0x7E00U;
  } else if (magnitude >= 0x477FF000U) {  // 65520, halfway between the largest half and 2^16, and above
    half = 0x7C00U;
  } else if (magnitude >= 0x38800000U) {  // 2^-14, the smallest normal half
    half = (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U;
  } else if (magnitude > 0x33000000U) {                     // above 2^-25, half of the smallest subnormal
    const std::uint32_t shift = 126U - (magnitude >> 23U);  // 14 to 24: bits that fall off the mantissa
    const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    const std::uint32_t kept = mantissa >> shift;
    half = (mantissa + (1U << (shift - 1U)) - 1U + (kept & 1U)) >> shift;
  }
  return static_cast<std::uint16_t>(sign | half);
}

/// bfloat16 to binary32; exact.
inline float bfloat16_to_float(std::uint16_t value) {
  return std::bit_cast<float>(std::uint32_t{value} << 16U);
}

/// binary32 to bfloat16, round to nearest even; NaN stays NaN and becomes quiet.
inline std::uint16_t float_to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

}  // namespace inferno::quant
