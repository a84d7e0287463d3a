#include <cstring>

#include "quant/all_formats.hpp"

namespace inferno::quant {
namespace {

void decode(const std::byte* source, std::size_t blocks, float* target) {
  if (blocks != 0) std::memcpy(target, source, blocks * sizeof(float));
}

void encode(const float* source, std::size_t blocks, std::byte* target) {
  if (blocks != 0) std::memcpy(target, source, blocks * sizeof(float));
}

}  // namespace

constinit const Format kF32{TensorType::f32, "f32", 1, 4, decode, encode, nullptr};

}  // namespace inferno::quant
