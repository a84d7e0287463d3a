#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/inline.hpp"

namespace inferno::cpu {

/// Positions whose keys stand side by side, one in each lane of a vector.
inline constexpr std::size_t kKeyLanes = 16;
/// Dimensions (keys) or positions (values) that share a 32-bit lane.
inline constexpr std::size_t kQuad = 4;
/// Dimensions that share a scale.
inline constexpr std::size_t kScaleDims = 32;

/// Keys and values of one KV head in one cache block, as kernels like them. P16 = positions rounded up to 16,
/// E32 = head size rounded up to 32, B = E32 / 32.
///
///   keys         [P16 / 16][E32 / 4][16 positions][4 dimensions]  uint8, the integer + 128
///   key_scales   [P16 / 16][B][16 positions]
///   values       [B][P16 / 4][32 dimensions][4 positions]         int8
///   value_scales [B][P16]
///
/// so that both products of attention read one run of memory from its beginning to its end. Positions that
/// were never written hold zero bytes. `positions` is P16.
struct CacheView {
  std::uint8_t* keys = nullptr;
  float* key_scales = nullptr;
  std::int8_t* values = nullptr;
  float* value_scales = nullptr;
  std::uint32_t positions = 0;
};

/// Where things of position p stand; d is a dimension, b a block of 32 dimensions.
struct CacheIndex {
  std::size_t positions = 0;  ///< P16
  std::size_t blocks = 0;     ///< B

  INFERNO_INLINE constexpr std::size_t key(std::size_t p, std::size_t d) const {
    const auto quads = blocks * kScaleDims / kQuad;
    return ((p / kKeyLanes * quads + d / kQuad) * kKeyLanes + p % kKeyLanes) * kQuad + d % kQuad;
  }
  INFERNO_INLINE constexpr std::size_t key_scale(std::size_t p, std::size_t b) const {
    return (p / kKeyLanes * blocks + b) * kKeyLanes + p % kKeyLanes;
  }
  INFERNO_INLINE constexpr std::size_t value(std::size_t p, std::size_t d) const {
    const auto quad = d / kScaleDims * (positions / kQuad) + p / kQuad;
    return (quad * kScaleDims + d % kScaleDims) * kQuad + p % kQuad;
  }
  INFERNO_INLINE constexpr std::size_t value_scale(std::size_t p, std::size_t b) const {
    return b * positions + p;
  }
};

}  // namespace inferno::cpu
