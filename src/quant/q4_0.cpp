#include <algorithm>

#include "quant/all_formats.hpp"
#include "quant/block.hpp"
#include "quant/half.hpp"

namespace inferno::quant {
namespace {

// Block: float16 scale d, 16 bytes of nibbles q. The low nibbles are elements 0 to 15, the high ones 16 to
// 31; an element is d * (q - 8).
constexpr std::size_t kElements = 32;
constexpr std::size_t kHalf = kElements / 2;
constexpr std::size_t kBytes = 2 + kHalf;

void decode(const std::byte* source, std::size_t blocks, float* target) {
  for (; blocks != 0; --blocks, source += kBytes, target += kElements) {
    const float scale = half_to_float(load<std::uint16_t>(source));
    for (std::size_t i = 0; i < kHalf; ++i) {
      const int pair = load<std::uint8_t>(source + 2 + i);
      target[i] = scale * static_cast<float>((pair & 15) - 8);
      target[i + kHalf] = scale * static_cast<float>((pair >> 4) - 8);
    }
  }
}

void integers(const std::byte* source, std::size_t blocks, std::int8_t* values, std::uint16_t* scales) {
  for (; blocks != 0; --blocks, source += kBytes, values += kElements) {
    *scales++ = load<std::uint16_t>(source);
    for (std::size_t i = 0; i < kHalf; ++i) {
      const int pair = load<std::uint8_t>(source + 2 + i);
      values[i] = static_cast<std::int8_t>((pair & 15) - 8);
      values[i + kHalf] = static_cast<std::int8_t>((pair >> 4) - 8);
    }
  }
}

void encode(const float* source, std::size_t blocks, std::byte* target) {
  for (; blocks != 0; --blocks, source += kElements, target += kBytes) {
    // The element of largest magnitude becomes q = 0, that is -8 d: d takes its sign reversed.
    const BlockScale scale = block_scale(largest_element(source, kElements, "q4_0") / -8.0F, "q4_0");
    const auto quantize = [&](float value) {
      return static_cast<unsigned>(std::min(15, static_cast<int>(value * scale.inverse + 8.5F)));
    };
    store(target, scale.half);
    for (std::size_t i = 0; i < kHalf; ++i) {
      target[2 + i] = to_byte(quantize(source[i]) | quantize(source[i + kHalf]) << 4U);
    }
  }
}

}  // namespace

constinit const Format kQ4_0{TensorType::q4_0, "q4_0", kElements, kBytes, decode, encode, integers};

}  // namespace inferno::quant
