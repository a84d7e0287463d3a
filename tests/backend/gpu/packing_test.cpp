// Packed weights: every value of the matrix is found where kernels look for it, and all else is zero.

#include "backend/gpu/packing.hpp"

#include <bit>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "quant/half.hpp"

namespace inferno::gpu {
namespace {

struct Source {
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [rows][columns] as the format decodes them
  Matrix matrix;
};

Source make_source(quant::TensorType type, std::uint32_t rows, std::uint32_t columns) {
  const auto& format = quant::format_of(type);
  Source source;
  source.matrix = {&format, rows, columns, nullptr, "w"};
  source.bytes.resize(source.matrix.total_bytes());
  source.values.resize(std::size_t{rows} * columns);
  for (std::size_t i = 0; i < source.values.size(); ++i) {
    source.values[i] = static_cast<float>((i * 37) % 251) - 125.0F;
  }
  const std::size_t blocks = source.values.size() / format.block_elements;
  format.encode(source.values.data(), blocks, source.bytes.data());
  format.decode(source.bytes.data(), blocks, source.values.data());
  source.matrix.bytes = source.bytes.data();
  return source;
}

template <typename T>
T at(const std::vector<std::byte>& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The value of a row and column, spelled as kernels.hpp describes the layout.
float value_at(const std::vector<std::byte>& packed, const PackedShape& shape, std::size_t row,
               std::size_t column) {
  const std::size_t segment = row / 8 * shape.panel_bytes() + column / 256 * shape.segment_bytes();
  const std::size_t lane = row % 8;
  const std::size_t in = column % 256;
  switch (shape.kind) {
    case WeightKind::q8: {
      const auto scale = at<std::uint16_t>(packed, segment + (lane * 8 + in / 32) * 2);
      const auto quant = at<std::int8_t>(packed, segment + 128 + (in / 16 * 8 + lane) * 16 + in % 16);
      return static_cast<float>(quant) * quant::half_to_float(scale);
    }
    case WeightKind::f32:
      return at<float>(packed, segment + (in / 4 * 8 + lane) * 16 + in % 4 * 4);
    case WeightKind::f16:
      return quant::half_to_float(at<std::uint16_t>(packed, segment + (in / 8 * 8 + lane) * 16 + in % 8 * 2));
    case WeightKind::bf16:
      break;
  }
  const auto bits = at<std::uint16_t>(packed, segment + (in / 8 * 8 + lane) * 16 + in % 8 * 2);
  return std::bit_cast<float>(std::uint32_t{bits} << 16U);
}

void expect_packed(quant::TensorType type, std::uint32_t rows, std::uint32_t columns) {
  const Source source = make_source(type, rows, columns);
  const PackedShape shape = packed_shape(source.matrix);
  // Panel by panel, as uploads do, into memory that is not zero.
  std::vector<std::byte> packed(shape.bytes(), std::byte{0x55});
  for (std::uint32_t panel = 0; panel < shape.panels(); ++panel) {
    ASSERT_EQ(pack_panels(source.matrix, panel, panel + 1, packed.data() + panel * shape.panel_bytes()),
              kAllFinite);
  }
  for (std::size_t row = 0; row < shape.panels() * std::size_t{8}; ++row) {
    for (std::size_t column = 0; column < shape.segments() * std::size_t{256}; ++column) {
      const bool inside = row < rows && column < columns;
      ASSERT_EQ(value_at(packed, shape, row, column), inside ? source.values[row * columns + column] : 0.0F)
          << "row " << row << ", column " << column;
    }
  }
}

TEST(GpuPacking, EveryFormatIsFoundAgain) {
  for (const auto& format : quant::formats()) {
    SCOPED_TRACE(format.name);
    expect_packed(format.type, 50, 96);
    expect_packed(format.type, 1, 544);
    expect_packed(format.type, 16, 256);
  }
}

TEST(GpuPacking, SizesAreAsDescribed) {
  const PackedShape q8{WeightKind::q8, 17, 257};
  EXPECT_EQ(q8.segment_bytes(), 2176U);
  EXPECT_EQ(q8.bytes(), 3U * 2U * 2176U);
  EXPECT_EQ((PackedShape{WeightKind::f32, 8, 256}).bytes(), 8192U);
  EXPECT_EQ((PackedShape{WeightKind::bf16, 8, 256}).bytes(), 4096U);
}

TEST(GpuPacking, AScaleThatIsNotFiniteIsReportedByRow) {
  Source source = make_source(quant::TensorType::q8_0, 20, 64);
  const std::uint16_t infinity = 0x7C00;
  std::memcpy(source.bytes.data() + 13 * source.matrix.row_bytes(), &infinity, sizeof infinity);
  std::vector<std::byte> packed(packed_shape(source.matrix).bytes());
  EXPECT_EQ(pack_panels(source.matrix, 0, 3, packed.data()), 13U);
  EXPECT_EQ(pack_panels(source.matrix, 2, 3, packed.data()), kAllFinite);
}

}  // namespace
}  // namespace inferno::gpu
