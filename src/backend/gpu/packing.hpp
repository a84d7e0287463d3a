#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/gpu/kernels.hpp"
#include "model/matrix.hpp"

namespace inferno::gpu {

/// The layouts of packed weights (kernels.hpp). All integer formats become q8.
enum class WeightKind : std::uint8_t { q8, f32, f16, bf16 };

WeightKind weight_kind(const quant::Format& format);

/// How large a packed matrix is.
struct PackedShape {
  WeightKind kind = WeightKind::q8;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;

  std::uint32_t panels() const { return divide_up(rows, kPanel); }
  std::uint32_t segments() const { return divide_up(columns, kPadColumns); }
  /// Bytes of a segment of one panel.
  std::uint32_t segment_bytes() const;
  std::uint64_t panel_bytes() const { return std::uint64_t{segments()} * segment_bytes(); }
  std::uint64_t bytes() const { return panels() * panel_bytes(); }
};

PackedShape packed_shape(const Matrix& matrix);

/// What pack_panels returns if there is nothing wrong.
inline constexpr std::uint32_t kAllFinite = 0xFFFFFFFF;

/// Packs panels [first, end) of `matrix`; `target` is where panel `first` goes. Returns the first of these
/// rows that has a scale which is infinite or NaN, or kAllFinite.
std::uint32_t pack_panels(const Matrix& matrix, std::uint32_t first, std::uint32_t end, std::byte* target);

}  // namespace inferno::gpu
