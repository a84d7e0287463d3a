#include "backend/cpu/kernels/packed_matrix.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace inferno::cpu {
namespace {

constexpr std::size_t kQuad = 4;  // columns that share a 32-bit lane
constexpr std::size_t kQuads = kBlockColumns / kQuad;
constexpr std::uint32_t kSignBits = 0x80808080;  // flipping the sign bit of a byte adds 128
constexpr std::uint16_t kHalfExponent = 0x7C00;

bool is_finite(std::uint16_t half) {
  return (half & kHalfExponent) != kHalfExponent;
}

/// Row `row` of a segment of `count` blocks goes to lane `lane` at `target`; returns whether its scales are
/// finite.
bool pack_segment_row(const Matrix& matrix, std::uint32_t row, std::uint32_t first_block, std::uint32_t count,
                      std::uint32_t lane, std::byte* target) {
  std::array<std::int8_t, std::size_t{kSegmentBlocks} * kBlockColumns> values;
  std::array<std::uint16_t, kSegmentBlocks> scales;
  matrix.format->integers(matrix.row(row) + std::size_t{first_block} * matrix.format->block_bytes, count,
                          values.data(), scales.data());
  std::byte* quants = target + PackedMatrix::scale_bytes(count);
  bool finite = true;
  for (std::uint32_t block = 0; block < count; ++block) {
    for (std::size_t quad = 0; quad < kQuads; ++quad) {
      std::uint32_t four = 0;
      std::memcpy(&four, &values[block * kBlockColumns + quad * kQuad], kQuad);
      four ^= kSignBits;
      std::memcpy(quants + ((block * kQuads + quad) * kPanelRows + lane) * kQuad, &four, kQuad);
    }
    std::memcpy(target + (block * kPanelRows + lane) * sizeof scales[0], &scales[block], sizeof scales[0]);
    finite = finite && is_finite(scales[block]);
  }
  return finite;
}

}  // namespace

bool is_packable(const quant::Format& format) {
  return format.integers != nullptr;
}

std::uint32_t pack_panels(const Matrix& matrix, std::uint32_t first, std::uint32_t end, std::byte* target) {
  const std::uint32_t blocks = matrix.columns / kBlockColumns;
  std::uint32_t bad_row = kAllFinite;
  for (auto panel = first; panel < end; ++panel) {
    const auto first_row = panel * kPanelRows;
    const auto rows = std::min(kPanelRows, matrix.rows - first_row);
    for (std::uint32_t block = 0; block < blocks; block += kSegmentBlocks) {
      const auto count = std::min(kSegmentBlocks, blocks - block);
      const auto bytes = PackedMatrix::segment_bytes(count);
      if (rows < kPanelRows || count < kSegmentBlocks) std::memset(target, 0, bytes);
      for (std::uint32_t lane = 0; lane < rows; ++lane) {
        if (!pack_segment_row(matrix, first_row + lane, block, count, lane, target)) {
          bad_row = std::min(bad_row, first_row + lane);
        }
      }
      target += bytes;
    }
  }
  return bad_row;
}

}  // namespace inferno::cpu
