#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/inline.hpp"
#include "model/matrix.hpp"

namespace inferno::cpu {

/// Rows of a panel: one vector lane owns one row, so that sums run down the lanes and no lane is ever added
/// to another.
inline constexpr std::uint32_t kPanelRows = 16;
/// Columns that share a scale.
inline constexpr std::uint32_t kBlockColumns = 32;
/// Blocks of a segment of 256 columns.
inline constexpr std::uint32_t kSegmentBlocks = 8;

/// A matrix of an integer format (Q8_0, Q4_0, Q5_0), repacked for vector kernels. The order of its bytes is
/// the order in which a matrix-vector product reads them:
///
///   panel (16 rows) > segment (8 blocks of 32 columns; the last may have fewer)
///     scales  [blocks][16 rows]                                    float16 bits, padded to 64 bytes
///     quants  [blocks][8 groups of 4 columns][16 rows][4 columns]  uint8, the integer + 128
///
/// so a full segment is 256 + 4096 bytes, as many as in the file for Q8_0, and every quant is aligned to 64
/// bytes. Rows beyond the matrix (the last panel) are zero. The memory is 64-byte aligned and
/// belongs to whoever made it.
struct PackedMatrix {
  const std::byte* bytes = nullptr;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;  ///< a multiple of 32

  INFERNO_INLINE std::uint32_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  INFERNO_INLINE std::uint32_t blocks() const { return columns / kBlockColumns; }
  /// Bytes of the scales and of the whole of a segment of `count` blocks.
  INFERNO_INLINE static constexpr std::size_t scale_bytes(std::size_t count) {
    return (count * kPanelRows * sizeof(std::uint16_t) + 63) / 64 * 64;
  }
  INFERNO_INLINE static constexpr std::size_t segment_bytes(std::size_t count) {
    return scale_bytes(count) + count * kPanelRows * kBlockColumns;
  }
  INFERNO_INLINE static constexpr std::size_t panel_bytes(std::size_t block_count) {
    const auto full = block_count / kSegmentBlocks;
    const auto rest = block_count % kSegmentBlocks;
    return full * segment_bytes(kSegmentBlocks) + (rest == 0 ? 0 : segment_bytes(rest));
  }
  INFERNO_INLINE const std::byte* panel(std::size_t index) const {
    return bytes + index * panel_bytes(blocks());
  }
  std::size_t total_bytes() const { return panels() * panel_bytes(blocks()); }
};

/// Whether the format's blocks are 32 integers with one float16 scale.
bool is_packable(const quant::Format& format);

/// What pack_panels returns if there is nothing wrong.
inline constexpr std::uint32_t kAllFinite = 0xFFFFFFFF;

/// Repacks panels [first, end) of `matrix`; `target` is where panel `first` goes. Plain C++, the same for all
/// kernels. Returns the first of these rows that has a scale which is infinite or NaN, or kAllFinite: such a
/// matrix must not be used, because kernels compute with scales in ways that only finite ones allow.
std::uint32_t pack_panels(const Matrix& matrix, std::uint32_t first, std::uint32_t end, std::byte* target);

}  // namespace inferno::cpu
