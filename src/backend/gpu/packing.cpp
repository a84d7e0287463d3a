#include "backend/gpu/packing.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace inferno::gpu {
namespace {

constexpr std::size_t kRows = kPanel;
constexpr std::size_t kSegmentColumns = kPadColumns;
constexpr std::size_t kBlockColumns = 32;
constexpr std::size_t kSegmentBlocks = kSegmentColumns / kBlockColumns;
constexpr std::size_t kChunkBytes = 16;
constexpr std::size_t kScaleBytes = kRows * kSegmentBlocks * sizeof(std::uint16_t);
constexpr std::uint16_t kHalfExponent = 0x7C00;

/// Bytes of a float element; of a quant for q8.
std::size_t element_bytes(WeightKind kind) {
  switch (kind) {
    case WeightKind::q8:
      return 1;
    case WeightKind::f32:
      return 4;
    case WeightKind::f16:
    case WeightKind::bf16:
      break;
  }
  return 2;
}

/// Spreads `bytes` of one row over chunks of 16 that interleave with the other rows' at `target`.
void scatter_row(const std::byte* row, std::size_t bytes, std::size_t lane, std::byte* target) {
  for (std::size_t done = 0; done < bytes; done += kChunkBytes) {
    std::memcpy(target + done * kRows + lane * kChunkBytes, row + done, std::min(kChunkBytes, bytes - done));
  }
}

/// One row's segment of an integer format; returns whether its scales are finite.
bool pack_integers(const quant::Format& format, const std::byte* source, std::size_t columns,
                   std::size_t lane, std::byte* target) {
  std::array<std::int8_t, kSegmentColumns> values{};
  std::array<std::uint16_t, kSegmentBlocks> scales{};
  const std::size_t blocks = columns / kBlockColumns;
  format.integers(source, blocks, values.data(), scales.data());
  std::memcpy(target + lane * sizeof scales, scales.data(), blocks * sizeof scales[0]);
  scatter_row(reinterpret_cast<const std::byte*>(values.data()), columns, lane, target + kScaleBytes);
  return std::all_of(scales.begin(), scales.begin() + static_cast<std::ptrdiff_t>(blocks),
                     [](std::uint16_t half) { return (half & kHalfExponent) != kHalfExponent; });
}

}  // namespace

WeightKind weight_kind(const quant::Format& format) {
  if (format.integers != nullptr) return WeightKind::q8;
  switch (format.type) {
    case quant::TensorType::f16:
      return WeightKind::f16;
    case quant::TensorType::bf16:
      return WeightKind::bf16;
    default:
      return WeightKind::f32;
  }
}

std::uint32_t PackedShape::segment_bytes() const {
  const std::size_t scales = kind == WeightKind::q8 ? kScaleBytes : 0;
  return static_cast<std::uint32_t>(scales + kRows * kSegmentColumns * element_bytes(kind));
}

PackedShape packed_shape(const Matrix& matrix) {
  return {weight_kind(*matrix.format), matrix.rows, matrix.columns};
}

std::uint32_t pack_panels(const Matrix& matrix, std::uint32_t first, std::uint32_t end, std::byte* target) {
  const PackedShape shape = packed_shape(matrix);
  const quant::Format& format = *matrix.format;
  std::memset(target, 0, (end - first) * shape.panel_bytes());
  std::uint32_t bad_row = kAllFinite;
  const std::uint32_t end_row = std::min(end * kPanel, matrix.rows);
  for (std::uint32_t row = first * kPanel; row < end_row; ++row) {
    const std::size_t lane = row % kPanel;
    std::byte* at = target + (row / kPanel - first) * shape.panel_bytes();
    for (std::size_t column = 0; column < matrix.columns; column += kSegmentColumns) {
      const std::size_t columns = std::min(kSegmentColumns, matrix.columns - column);
      const std::byte* source = matrix.row(row) + column / format.block_elements * format.block_bytes;
      if (shape.kind != WeightKind::q8) {
        scatter_row(source, columns * element_bytes(shape.kind), lane, at);
      } else if (!pack_integers(format, source, columns, lane, at)) {
        bad_row = std::min(bad_row, row);
      }
      at += shape.segment_bytes();
    }
  }
  return bad_row;
}

}  // namespace inferno::gpu
