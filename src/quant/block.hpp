#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

/// What the files of the single formats share.
namespace inferno::quant {

static_assert(std::endian::native == std::endian::little, "blocks are read as the file stores them");

/// Files promise no alignment inside a row (a Q8_0 block has 34 bytes), so values are copied out.
template <typename T>
T load(const std::byte* source) {
  T value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* target, T value) {
  std::memcpy(target, &value, sizeof value);
}

inline std::byte to_byte(unsigned value) {
  return static_cast<std::byte>(value);
}

/// The scale of a block and its reciprocal.
struct BlockScale {
  std::uint16_t half = 0;  ///< as the block stores it
  float inverse = 0.0F;    ///< of the scale before it was rounded to half, as the reference quantizers do
};

/// Of the block's element of largest magnitude (the first of equals), with its sign.
/// Throws Error if an element is not finite: a block with a NaN or infinite scale poisons 32 weights.
float largest_element(const float* source, std::size_t elements, std::string_view format);

/// Throws Error if the scale is too large for a half. Scales too small for a usable reciprocal are zero.
BlockScale block_scale(float scale, std::string_view format);

}  // namespace inferno::quant
