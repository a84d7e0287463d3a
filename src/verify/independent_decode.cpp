#include "verify/independent_decode.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace inferno::verify {
namespace {

/// A little-endian number of `bytes` bytes.
unsigned long little_endian(const std::byte* source, int bytes) {
  unsigned long value = 0;
  for (int i = bytes - 1; i >= 0; --i) value = value * 256 + std::to_integer<unsigned long>(source[i]);
  return value;
}

/// The values of all 16-bit numbers, so that decoding whole models takes seconds, not minutes.
std::vector<double> all_values(int exponent_bits, int fraction_bits) {
  std::vector<double> values(65536);
  for (unsigned long bits = 0; bits < values.size(); ++bits) {
    values[bits] = binary_value(bits, exponent_bits, fraction_bits);
  }
  return values;
}

double half(const std::byte* source) {
  static const auto values = all_values(5, 10);
  return values[little_endian(source, 2)];
}

double bfloat16(const std::byte* source) {
  static const auto values = all_values(8, 7);
  return values[little_endian(source, 2)];
}

constexpr std::size_t kBlock = 32;

/// Element `i` of 32 in 16 bytes of nibbles: the low nibbles are elements 0 to 15, the high ones 16 to 31.
int nibble(const std::byte* nibbles, std::size_t i) {
  const auto byte = std::to_integer<int>(nibbles[i % 16]);
  return i < 16 ? byte % 16 : byte / 16;
}

/// Scale (float16), 16 bytes of nibbles: (nibble - 8) x scale.
double q4_0(const std::byte* block, std::size_t i) {
  return (nibble(block + 2, i) - 8) * half(block);
}

/// Scale (float16), 32 fifth bits, 16 bytes of nibbles: (nibble + 16 x fifth bit - 16) x scale.
double q5_0(const std::byte* block, std::size_t i) {
  const auto fifth_bits = little_endian(block + 2, 4);
  const int fifth = static_cast<int>((fifth_bits >> i) % 2);
  return (nibble(block + 6, i) + 16 * fifth - 16) * half(block);
}

/// Scale (float16), 32 signed bytes: byte x scale.
double q8_0(const std::byte* block, std::size_t i) {
  const auto byte = std::to_integer<int>(block[2 + i]);
  return (byte < 128 ? byte : byte - 256) * half(block);
}

}  // namespace

double binary_value(unsigned long bits, int exponent_bits, int fraction_bits) {
  const auto fraction = bits % (1UL << fraction_bits);
  const auto exponent = static_cast<int>((bits >> fraction_bits) % (1UL << exponent_bits));
  const double sign = (bits >> (fraction_bits + exponent_bits)) % 2 == 0 ? 1.0 : -1.0;
  const int largest = (1 << exponent_bits) - 1;
  const int bias = largest / 2;
  if (exponent == largest) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  const double significand = std::ldexp(static_cast<double>(fraction), -fraction_bits);
  if (exponent == 0) return sign * std::ldexp(significand, 1 - bias);
  return sign * std::ldexp(1.0 + significand, exponent - bias);
}

std::optional<double> decode_element(quant::TensorType type, const std::byte* source, std::size_t index) {
  const auto block = index / kBlock;
  const auto i = index % kBlock;
  switch (type) {
    case quant::TensorType::f32:
      return binary_value(little_endian(source + 4 * index, 4), 8, 23);
    case quant::TensorType::f16:
      return half(source + 2 * index);
    case quant::TensorType::bf16:
      return bfloat16(source + 2 * index);
    case quant::TensorType::q4_0:
      return q4_0(source + 18 * block, i);
    case quant::TensorType::q5_0:
      return q5_0(source + 22 * block, i);
    case quant::TensorType::q8_0:
      return q8_0(source + 34 * block, i);
  }
  return std::nullopt;
}

}  // namespace inferno::verify
