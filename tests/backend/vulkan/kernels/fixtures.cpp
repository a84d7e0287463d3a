#include "backend/vulkan/kernels/fixtures.hpp"

#include <cmath>
#include <cstring>

#include "quant/half.hpp"

namespace inferno::gpu {

void VulkanDotTest::SetUp() {
  static const auto plain = test::open_test_device({.integer_dot = false});
  static const auto with_dot = test::open_test_device({.integer_dot = true});
  device_ = GetParam() ? with_dot.get() : plain.get();
  if (device().capabilities().integer_dot != GetParam()) {
    GTEST_SKIP() << device().capabilities().name << " has no integer dot products";
  }
}

QuantizedRows quantize_rows(std::span<const float> x, std::size_t columns) {
  QuantizedRows result;
  const std::size_t rows = x.size() / columns;
  result.values.resize(rows * padded(columns));
  result.scales.resize(rows * padded(columns) / 32);
  for (std::size_t row = 0; row < rows; ++row) {
    auto quantized = arith::quantize_vector(x.subspan(row * columns, columns));
    std::copy(quantized.values.begin(), quantized.values.end(),
              result.values.begin() + static_cast<std::ptrdiff_t>(row * padded(columns)));
    std::copy(quantized.scales.begin(), quantized.scales.end(),
              result.scales.begin() + static_cast<std::ptrdiff_t>(row * padded(columns) / 32));
    result.rows.push_back(std::move(quantized));
  }
  return result;
}

namespace {

constexpr std::size_t kSegmentColumns = 256;

std::size_t panels_of(std::size_t rows) {
  return (rows + kPanel - 1) / kPanel;
}

// Where a row's part of a segment begins, if a segment of 8 rows has `segment_bytes`.
std::size_t segment_at(std::size_t row, std::size_t column, std::size_t columns, std::size_t segment_bytes) {
  const std::size_t segments = padded(columns) / kSegmentColumns;
  return (row / kPanel * segments + column / kSegmentColumns) * segment_bytes;
}

// Packs elements of a float format, 16 bytes of neighbouring columns at a time.
template <typename T>
std::vector<std::byte> pack_elements(std::span<const T> values, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kPerUnit = 16 / sizeof(T);
  constexpr std::size_t kSegmentBytes = kSegmentColumns * kPanel * sizeof(T);
  std::vector<std::byte> packed(panels_of(rows) * padded(columns) * kPanel * sizeof(T));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t unit = column % kSegmentColumns / kPerUnit;
      const std::size_t at = segment_at(row, column, columns, kSegmentBytes) +
                             (unit * kPanel + row % kPanel) * 16 + column % kPerUnit * sizeof(T);
      std::memcpy(packed.data() + at, &values[row * columns + column], sizeof(T));
    }
  }
  return packed;
}

}  // namespace

Q8Matrix random_q8(std::size_t rows, std::size_t columns, Random& random) {
  Q8Matrix matrix{.rows = rows, .columns = columns};
  matrix.values.resize(rows * columns);
  for (auto& value : matrix.values) value = static_cast<std::int8_t>(random.integer(-128, 127));
  const std::size_t blocks = columns / 32;
  for (std::size_t i = 0; i < rows * blocks; ++i) {
    // Subnormal halves and negative scales, too.
    const int kind = random.integer(0, 15);
    const float scale = kind == 0   ? 0.0F
                        : kind == 1 ? random.uniform(0.0F, 0x1p-15F)
                                    : random.uniform(-0.02F, 0.02F);
    matrix.half_scales.push_back(quant::float_to_half(scale));
    matrix.scales.push_back(quant::half_to_float(matrix.half_scales.back()));
  }
  constexpr std::size_t kScaleBytes = std::size_t{kPanel} * 8 * 2;
  constexpr std::size_t kSegmentBytes = kScaleBytes + kSegmentColumns * kPanel;
  matrix.packed.resize(panels_of(rows) * padded(columns) / kSegmentColumns * kSegmentBytes);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t segment = segment_at(row, column, columns, kSegmentBytes);
      const std::size_t within = column % kSegmentColumns;
      matrix.packed[segment + kScaleBytes + (within / 16 * kPanel + row % kPanel) * 16 + within % 16] =
          static_cast<std::byte>(matrix.values[row * columns + column]);
      std::memcpy(matrix.packed.data() + segment + (row % kPanel * 8 + within / 32) * 2,
                  &matrix.half_scales[row * blocks + column / 32], 2);
    }
  }
  return matrix;
}

FloatMatrix random_floats(std::size_t rows, std::size_t columns, FloatFormat format, Random& random) {
  FloatMatrix matrix{.rows = rows, .columns = columns};
  matrix.values = random.vector(rows * columns);
  // Far apart in size, so that the order of a sum shows.
  for (float& value : matrix.values) value = std::ldexp(value, random.integer(-6, 6));
  if (format == FloatFormat::f32) {
    matrix.packed = pack_elements(std::span<const float>(matrix.values), rows, columns);
    return matrix;
  }
  std::vector<std::uint16_t> encoded;
  for (float& value : matrix.values) {
    // Subnormal halves, too.
    if (random.integer(0, 15) == 0) value *= 0x1p-18F;
    if (format == FloatFormat::f16) {
      encoded.push_back(quant::float_to_half(value));
      value = quant::half_to_float(encoded.back());
    } else {
      encoded.push_back(quant::float_to_bfloat16(value));
      value = quant::bfloat16_to_float(encoded.back());
    }
  }
  matrix.packed = pack_elements(std::span<const std::uint16_t>(encoded), rows, columns);
  return matrix;
}

}  // namespace inferno::gpu
