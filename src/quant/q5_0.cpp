#include <algorithm>

#include "quant/all_formats.hpp"
#include "quant/block.hpp"
#include "quant/half.hpp"

namespace inferno::quant {
namespace {

// Block: float16 scale d, 32 fifth bits (bit i is element i's), 16 bytes of nibbles as in Q4_0;
// an element is d * (q - 16).
constexpr std::size_t kElements = 32;
constexpr std::size_t kHalf = kElements / 2;
constexpr std::size_t kNibbles = 2 + 4;
constexpr std::size_t kBytes = kNibbles + kHalf;

void decode(const std::byte* source, std::size_t blocks, float* target) {
  for (; blocks != 0; --blocks, source += kBytes, target += kElements) {
    const float scale = half_to_float(load<std::uint16_t>(source));
    const std::uint32_t fifth = load<std::uint32_t>(source + 2);
    for (std::size_t i = 0; i < kHalf; ++i) {
      const unsigned pair = load<std::uint8_t>(source + kNibbles + i);
      const unsigned low = (pair & 15U) | ((fifth >> i) & 1U) << 4U;
      const unsigned high = (pair >> 4U) | ((fifth >> (i + kHalf)) & 1U) << 4U;
      target[i] = scale * static_cast<float>(static_cast<int>(low) - 16);
      target[i + kHalf] = scale * static_cast<float>(static_cast<int>(high) - 16);
    }
  }
}

void integers(const std::byte* source, std::size_t blocks, std::int8_t* values, std::uint16_t* scales) {
  for (; blocks != 0; --blocks, source += kBytes, values += kElements) {
    *scales++ = load<std::uint16_t>(source);
    const std::uint32_t fifth = load<std::uint32_t>(source + 2);
    for (std::size_t i = 0; i < kHalf; ++i) {
      const unsigned pair = load<std::uint8_t>(source + kNibbles + i);
      const unsigned low = (pair & 15U) | ((fifth >> i) & 1U) << 4U;
      const unsigned high = (pair >> 4U) | ((fifth >> (i + kHalf)) & 1U) << 4U;
      values[i] = static_cast<std::int8_t>(static_cast<int>(low) - 16);
      values[i + kHalf] = static_cast<std::int8_t>(static_cast<int>(high) - 16);
    }
  }
}

void encode(const float* source, std::size_t blocks, std::byte* target) {
  for (; blocks != 0; --blocks, source += kElements, target += kBytes) {
    // The element of largest magnitude becomes q = 0, that is -16 d: d takes its sign reversed.
    const BlockScale scale = block_scale(largest_element(source, kElements, "q5_0") / -16.0F, "q5_0");
    const auto quantize = [&](float value) {
      return static_cast<unsigned>(std::min(31, static_cast<int>(value * scale.inverse + 16.5F)));
    };
    std::uint32_t fifth = 0;
    for (std::size_t i = 0; i < kHalf; ++i) {
      const unsigned low = quantize(source[i]);
      const unsigned high = quantize(source[i + kHalf]);
      target[kNibbles + i] = to_byte((low & 15U) | (high & 15U) << 4U);
      fifth |= (low >> 4U) << i | (high >> 4U) << (i + kHalf);
    }
    store(target, scale.half);
    store(target + 2, fifth);
  }
}

}  // namespace

constinit const Format kQ5_0{TensorType::q5_0, "q5_0", kElements, kBytes, decode, encode, integers};

}  // namespace inferno::quant
