#include <cmath>

#include "quant/all_formats.hpp"
#include "quant/block.hpp"
#include "quant/half.hpp"

namespace inferno::quant {
namespace {

// Block: float16 scale d, 32 int8 q. Element i is d * q[i]; the product needs 19 bits, so it is exact.
constexpr std::size_t kElements = 32;
constexpr std::size_t kBytes = 2 + kElements;

void decode(const std::byte* source, std::size_t blocks, float* target) {
  for (; blocks != 0; --blocks, source += kBytes, target += kElements) {
    const float scale = half_to_float(load<std::uint16_t>(source));
    for (std::size_t i = 0; i < kElements; ++i) {
      target[i] = scale * static_cast<float>(load<std::int8_t>(source + 2 + i));
    }
  }
}

void integers(const std::byte* source, std::size_t blocks, std::int8_t* values, std::uint16_t* scales) {
  for (; blocks != 0; --blocks, source += kBytes, values += kElements) {
    *scales++ = load<std::uint16_t>(source);
    std::memcpy(values, source + 2, kElements);
  }
}

void encode(const float* source, std::size_t blocks, std::byte* target) {
  for (; blocks != 0; --blocks, source += kElements, target += kBytes) {
    const float largest = std::fabs(largest_element(source, kElements, "q8_0"));
    const BlockScale scale = block_scale(largest / 127.0F, "q8_0");
    store(target, scale.half);
    for (std::size_t i = 0; i < kElements; ++i) {
      store(target + 2 + i, static_cast<std::int8_t>(std::round(source[i] * scale.inverse)));
    }
  }
}

}  // namespace

constinit const Format kQ8_0{TensorType::q8_0, "q8_0", kElements, kBytes, decode, encode, integers};

}  // namespace inferno::quant
