#pragma once

#include "backend/cpu/kernels/isa/avx512.hpp"

namespace inferno::cpu {
namespace {

/// AVX-512 for all but products with many tokens or heads (amx.cpp): activations of sixteen tokens stand
/// together, as a tile register takes them.
struct Amx : Avx512 {
  static constexpr std::size_t kTileTokens = 16;
  static constexpr std::size_t kMatmulTokens = 8;
  static constexpr std::size_t kMatmulPanels = 1;
  static constexpr std::size_t kMatmulFewTokens = 8;
};

}  // namespace
}  // namespace inferno::cpu
