#include "backend/cpu/kernels/packed_matrix.hpp"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

namespace inferno::cpu {
namespace {

TEST(PackedMatrix, AFullSegmentTakesAsManyBytesAsTheFile) {
  EXPECT_EQ(PackedMatrix::segment_bytes(kSegmentBlocks), kPanelRows * kSegmentBlocks * 34U);
  EXPECT_EQ(PackedMatrix::segment_bytes(1) % 64, 0U);
  EXPECT_EQ(PackedMatrix::panel_bytes(96), 12 * PackedMatrix::segment_bytes(8));
  EXPECT_EQ(PackedMatrix::panel_bytes(9), PackedMatrix::segment_bytes(8) + PackedMatrix::segment_bytes(1));
}

TEST(PackedMatrix, OnlyFormatsOfIntegersWithOneScaleArePacked) {
  for (const char* name : {"q8_0", "q4_0", "q5_0"}) {
    EXPECT_TRUE(is_packable(*quant::find_format(std::string_view(name)))) << name;
  }
  for (const char* name : {"f32", "f16", "bf16"}) {
    EXPECT_FALSE(is_packable(*quant::find_format(std::string_view(name)))) << name;
  }
}

/// 17 rows of 9 blocks of Q8_0 whose bytes tell where they are from.
std::vector<std::byte> numbered_rows(std::uint32_t rows, std::uint32_t blocks) {
  std::vector<std::byte> bytes;
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t block = 0; block < blocks; ++block) {
      bytes.push_back(static_cast<std::byte>(row));
      bytes.push_back(static_cast<std::byte>(block));
      for (std::uint32_t i = 0; i < 32; ++i)
        bytes.push_back(static_cast<std::byte>(row * 50 + block * 7 + i));
    }
  }
  return bytes;
}

TEST(PackedMatrix, PutsEachRowInItsLane) {
  const auto bytes = numbered_rows(17, 9);
  const Matrix matrix{quant::find_format(std::string_view("q8_0")), 17, 288, bytes.data(), "test"};
  const auto panel_bytes = PackedMatrix::panel_bytes(9);
  std::vector<std::byte> packed(2 * panel_bytes, std::byte{0xAA});
  ASSERT_EQ(pack_panels(matrix, 0, 2, packed.data()), kAllFinite);
  for (std::uint32_t row = 0; row < 32; ++row) {
    for (std::uint32_t block = 0; block < 9; ++block) {
      const auto in_segment = block % 8;
      const std::size_t quants = block < 8 ? 256 : 64;
      const std::byte* segment =
          packed.data() + row / 16 * panel_bytes + (block < 8 ? 0 : PackedMatrix::segment_bytes(8));
      std::uint16_t scale = 0;
      std::memcpy(&scale, segment + (in_segment * 16 + row % 16) * 2, 2);
      ASSERT_EQ(scale, row < 17 ? row + 256 * block : 0);
      for (std::uint32_t i = 0; i < 32; ++i) {
        const auto at = quants + in_segment * 512 + i / 4 * 64 + row % 16 * 4 + i % 4;
        const auto integer = static_cast<std::uint8_t>(row * 50 + block * 7 + i + 128);
        ASSERT_EQ(std::to_integer<int>(segment[at]), row < 17 ? integer : 0)
            << row << " " << block << " " << i;
      }
    }
  }
}

TEST(PackedMatrix, PanelsCanBePackedOneByOne) {
  const auto bytes = numbered_rows(40, 3);
  const Matrix matrix{quant::find_format(std::string_view("q8_0")), 40, 96, bytes.data(), "test"};
  const auto panel_bytes = PackedMatrix::panel_bytes(3);
  std::vector<std::byte> together(3 * panel_bytes, std::byte{1});
  std::vector<std::byte> apart(3 * panel_bytes, std::byte{2});
  pack_panels(matrix, 0, 3, together.data());
  for (const std::uint32_t panel : {2U, 0U, 1U}) {
    pack_panels(matrix, panel, panel + 1, apart.data() + panel * panel_bytes);
  }
  EXPECT_EQ(together, apart);
}

TEST(PackedMatrix, NamesTheFirstRowWithAnInfiniteOrNanScale) {
  for (const int pattern : {0x7C00, 0xFC00, 0x7E00, 0xFFFF}) {
    const auto bad = static_cast<std::uint16_t>(pattern);
    auto bytes = numbered_rows(40, 3);
    const Matrix matrix{quant::find_format(std::string_view("q8_0")), 40, 96, bytes.data(), "test"};
    for (const std::uint32_t row : {33U, 21U}) {
      std::memcpy(&bytes[(row * 3 + 2) * 34], &bad, sizeof bad);
    }
    std::vector<std::byte> packed(3 * PackedMatrix::panel_bytes(3));
    EXPECT_EQ(pack_panels(matrix, 0, 3, packed.data()), 21U);
    EXPECT_EQ(pack_panels(matrix, 0, 1, packed.data()), kAllFinite);
    EXPECT_EQ(pack_panels(matrix, 2, 3, packed.data()), 33U);
  }
}

}  // namespace
}  // namespace inferno::cpu
