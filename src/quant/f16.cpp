#include "quant/all_formats.hpp"
#include "quant/block.hpp"
#include "quant/half.hpp"

namespace inferno::quant {
namespace {

void decode(const std::byte* source, std::size_t blocks, float* target) {
  for (std::size_t i = 0; i < blocks; ++i) target[i] = half_to_float(load<std::uint16_t>(source + 2 * i));
}

void encode(const float* source, std::size_t blocks, std::byte* target) {
  for (std::size_t i = 0; i < blocks; ++i) store(target + 2 * i, float_to_half(source[i]));
}

}  // namespace

constinit const Format kF16{TensorType::f16, "f16", 1, 2, decode, encode, nullptr};

}  // namespace inferno::quant
