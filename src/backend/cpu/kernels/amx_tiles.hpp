#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

#include "backend/cpu/kernels/inline.hpp"

namespace inferno::cpu {
namespace {

/// What LDTILECFG reads: how many rows and bytes a row each of the eight tile registers has.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  INFERNO_INLINE void set(std::size_t tile, std::size_t row_count, std::size_t bytes) {
    rows[tile] = static_cast<std::uint8_t>(row_count);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};

/// Tile registers of this thread while it lives: in use they would be saved and restored whenever threads
/// change.
class Tiles {
 public:
  INFERNO_INLINE explicit Tiles(const TileConfig& config) { _tile_loadconfig(&config); }
  INFERNO_INLINE ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

}  // namespace
}  // namespace inferno::cpu
