// Field cases G2 and G4a: sizes that wrap, bad alignment, overlapping and repeated tensors.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <inferno/error.hpp>

#include "gguf/header.hpp"
#include "gguf/reader.hpp"
#include "gguf/refusal.hpp"
#include "support/gguf_bytes.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using gguf::ValueType;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ8 = 8;
constexpr std::uint64_t kBit = 1;

std::string one_tensor(std::initializer_list<std::uint64_t> shape, std::uint32_t type,
                       std::uint64_t offset = 0, std::size_t data_bytes = 4096) {
  return GgufBytes::header(1, 0).tensor("blk.0.w", shape, type, offset).pad().zeros(data_bytes).get();
}

TEST(TensorShape, AZeroDimension) {
  EXPECT_THAT(refusal_of_bytes(one_tensor({32, 0}, kF32)),
              AllOf(HasSubstr("tensor \"blk.0.w\": dimension 1"), HasSubstr("at least 1 at byte 51,"),
                    HasSubstr("found 0")));
  EXPECT_THAT(refusal_of_bytes(one_tensor({0}, kQ8)), HasSubstr("tensor \"blk.0.w\": dimension 0"));
  EXPECT_THAT(refusal_of_bytes(one_tensor({0, ~std::uint64_t{0}}, kQ8)),
              HasSubstr("tensor \"blk.0.w\": dimension 0"));
}

TEST(TensorShape, ProductsThatWrap) {
  const std::initializer_list<std::uint64_t> shapes[] = {
      {~std::uint64_t{0}, 2},
      {kBit << 63U, 1},
      {kBit << 63U, 2},
      {kBit << 32U, kBit << 32U},
      {kBit << 32U, kBit << 31U, 2},
      {kBit << 16U, kBit << 16U, kBit << 16U, kBit << 16U},
      {32, (kBit << 59U) + 1},
      {~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}, ~std::uint64_t{0}},
  };
  for (const auto& shape : shapes) {
    for (const std::uint32_t type : {kF32, 1U, 2U, 6U, kQ8, 30U}) {
      EXPECT_THAT(refusal_of_bytes(one_tensor(shape, type)),
                  AllOf(HasSubstr("tensor \"blk.0.w\": dimension"),
                        HasSubstr("at most 9223372036854775807 elements")));
    }
  }
}

TEST(TensorShape, BytesThatWrap) {
  // The number of elements fits 63 bits, four bytes for each do not fit 64.
  EXPECT_THAT(refusal_of_bytes(one_tensor({kBit << 62U}, kF32)), HasSubstr("tensor \"blk.0.w\": shape"));
  EXPECT_THAT(refusal_of_bytes(one_tensor({kBit << 32U, kBit << 30U}, kF32)),
              HasSubstr("tensor \"blk.0.w\": shape"));
  // These fit, and the file is smaller.
  EXPECT_THAT(refusal_of_bytes(one_tensor({32, (kBit << 42U) + 1}, kQ8)),
              AllOf(HasSubstr("tensor \"blk.0.w\": data"), HasSubstr("149533581377570 bytes")));
  EXPECT_THAT(refusal_of_bytes(one_tensor({kBit << 61U}, kF32)), HasSubstr("tensor \"blk.0.w\": data"));
  EXPECT_THAT(refusal_of_bytes(one_tensor({kBit << 62U}, kQ8)), HasSubstr("tensor \"blk.0.w\": data"));
}

TEST(TensorShape, RowsThatAreNoWholeBlocks) {
  for (const std::uint32_t type : {2U, 6U, kQ8}) {
    for (const std::uint64_t columns : {1U, 16U, 31U, 33U}) {
      EXPECT_THAT(refusal_of_bytes(one_tensor({columns, 32}, type)),
                  AllOf(HasSubstr("tensor \"blk.0.w\": dimension 0"), HasSubstr("a multiple of 32"),
                        HasSubstr("byte 43,"), HasSubstr("found " + std::to_string(columns))));
    }
  }
}

// Of types that inferno cannot decode the sizes are known, and checked.
TEST(TensorShape, TypesThatCannotBeDecoded) {
  constexpr std::uint32_t kQ4K = 12;
  EXPECT_THAT(
      refusal_of_bytes(one_tensor({128, 2}, kQ4K)),
      AllOf(HasSubstr("tensor \"blk.0.w\": dimension 0"), HasSubstr("a multiple of 256 (a block of q4_k)")));
  EXPECT_THAT(refusal_of_bytes(one_tensor({256, 2}, kQ4K, 0, 287)),
              AllOf(HasSubstr("tensor \"blk.0.w\": data"), HasSubstr("288 bytes")));
  const TemporaryFolder folder;
  for (const auto& layout : quant::tensor_layouts()) {
    const std::uint64_t columns = layout.block_elements;
    const auto bytes = one_tensor({columns, 3}, layout.type_id, 0, std::size_t{3} * layout.block_bytes);
    const auto file = gguf::File::open(folder.write("x.gguf", bytes));
    const auto& tensor = file.tensors()[0];
    EXPECT_EQ(tensor.layout, &layout);
    EXPECT_EQ(tensor.format, quant::find_format(layout.type_id));
    EXPECT_EQ(tensor.bytes, std::uint64_t{3} * layout.block_bytes);
    EXPECT_EQ(file.data(tensor).size(), tensor.bytes);
  }
}

TEST(TensorTable, KnowsWhereItsEntriesStand) {
  const TemporaryFolder folder;
  const auto file = gguf::File::open(folder.write(
      "x.gguf",
      GgufBytes::header(2, 0).tensor("a", {2}, kF32, 0).tensor("b", {2}, kF32, 32).pad().zeros(64).get()));
  EXPECT_EQ(file.tensors()[0].declared_at, 24U);
  EXPECT_EQ(file.tensors()[1].declared_at, 24U + 33U);
}

TEST(TensorOffset, OutsideTheFile) {
  EXPECT_THAT(
      refusal_of_bytes(one_tensor({8}, kF32, ~std::uint64_t{0} - 31)),
      AllOf(HasSubstr("tensor \"blk.0.w\": data"), HasSubstr("18446744073709551584"), HasSubstr("byte 55,")));
  EXPECT_THAT(refusal_of_bytes(one_tensor({8}, kF32, kBit << 63U)), HasSubstr("tensor \"blk.0.w\": data"));
  EXPECT_THAT(refusal_of_bytes(one_tensor({8}, kF32, 4096)), HasSubstr("tensor \"blk.0.w\": data"));
  EXPECT_THAT(refusal_of_bytes(one_tensor({8}, kF32, 4096, 4096 + 31)),
              HasSubstr("tensor \"blk.0.w\": data"));
  const TemporaryFolder folder;
  EXPECT_EQ(
      gguf::File::open(folder.write("x.gguf", one_tensor({8}, kF32, 4096, 4096 + 32))).tensors()[0].offset,
      4096U);
}

TEST(TensorOffset, NotAMultipleOfTheAlignment) {
  for (const std::uint64_t offset : {1U, 4U, 16U, 31U, 33U}) {
    EXPECT_THAT(refusal_of_bytes(one_tensor({8}, kF32, offset)),
                AllOf(HasSubstr("tensor \"blk.0.w\": offset"), HasSubstr("multiple of the alignment 32"),
                      HasSubstr("byte 55,"), HasSubstr("found " + std::to_string(offset))));
  }
}

std::string two_tensors(std::uint64_t first, std::uint64_t second, std::string_view second_name = "b") {
  auto bytes = GgufBytes::header(2, 0).tensor("a", {16}, kF32, first).tensor(second_name, {16}, kF32, second);
  return bytes.pad().zeros(256).get();
}

TEST(TensorOffset, DescendingOrOverlapping) {
  EXPECT_THAT(refusal_of_bytes(two_tensors(64, 0)),
              AllOf(HasSubstr("tensor \"b\": offset"), HasSubstr("tensor \"a\""), HasSubstr("descending")));
  EXPECT_THAT(refusal_of_bytes(two_tensors(0, 0)),
              AllOf(HasSubstr("tensor \"b\": offset"), HasSubstr("overlaps")));
  EXPECT_THAT(refusal_of_bytes(two_tensors(0, 32)),
              AllOf(HasSubstr("tensor \"b\": offset"), HasSubstr("at least 64"),
                    HasSubstr("found 32, which overlaps")));
  EXPECT_THAT(refusal_of_bytes(two_tensors(32, 0)),
              AllOf(HasSubstr("tensor \"b\": offset"), HasSubstr("overlaps")));
  // A gap harms nobody.
  const TemporaryFolder folder;
  EXPECT_EQ(gguf::File::open(folder.write("x.gguf", two_tensors(0, 128))).tensors()[1].offset, 128U);
}

TEST(TensorName, Twice) {
  EXPECT_THAT(
      refusal_of_bytes(two_tensors(0, 64, "a")),
      AllOf(HasSubstr("tensor \"a\": name"), HasSubstr("each tensor once"), HasSubstr("first as tensor 1")));
}

std::string with_alignment(std::uint32_t alignment, std::size_t padding) {
  auto bytes = GgufBytes::header(1, 1).entry("general.alignment", ValueType::u32, alignment);
  return bytes.tensor("a", {2}, kF32, 0).pad(padding).number(1.5F).number(2.5F).get();
}

TEST(Alignment, BadValues) {
  for (const std::uint32_t alignment : {0U, 1U, 3U, 4U, 24U, 33U, 1U << 25U, 1U << 31U, 0xFFFFFFFFU}) {
    EXPECT_THAT(refusal_of_bytes(with_alignment(alignment, 32)),
                AllOf(HasSubstr("metadata key \"general.alignment\": value"), HasSubstr("power of two"),
                      HasSubstr("byte 53,"), HasSubstr("found " + std::to_string(alignment))));
  }
}

TEST(Alignment, OtherTypes) {
  for (std::uint32_t type = 0; type < gguf::kValueTypes; ++type) {
    if (type == static_cast<std::uint32_t>(ValueType::u32)) continue;
    EXPECT_THAT(
        refusal_of_bytes(
            GgufBytes::header(0, 1).key("general.alignment", type).number(std::uint64_t{64}).zeros(64).get()),
        AllOf(HasSubstr("metadata key \"general.alignment\": value type"), HasSubstr("expected u32"),
              HasSubstr("byte 49,"), HasSubstr(fmt::format("({})", type))));
  }
}

TEST(Alignment, GoodValues) {
  const TemporaryFolder folder;
  for (const std::uint32_t alignment : {8U, 16U, 32U, 64U, 4096U}) {
    const auto path = folder.write("x.gguf", with_alignment(alignment, alignment));
    for (const bool map : {true, false}) {
      const auto file = gguf::File::open(path, {map});
      EXPECT_EQ(file.alignment(), alignment);
      const auto data = file.data(file.tensors()[0]);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.data()) % alignment, 0U);
      EXPECT_EQ(*reinterpret_cast<const float*>(data.data()), 1.5F);
    }
  }
  EXPECT_EQ(gguf::File::open(folder.write("x.gguf", one_tensor({8}, kF32))).alignment(), 32U);
}

// The key may stand after tensors' shapes are known only if it is applied late: here it stands last.
TEST(Alignment, AppliesWhereverTheKeyStands) {
  auto bytes = GgufBytes::header(1, 2).entry("z", ValueType::u8, std::uint8_t{1});
  bytes.entry("general.alignment", ValueType::u32, 64U).tensor("a", {2}, kF32, 32).pad(64).zeros(64);
  EXPECT_THAT(refusal_of_bytes(bytes.get()), HasSubstr("multiple of the alignment 64"));
}

TEST(Keys, Twice) {
  for (const std::uint32_t second : {1U, 2U}) {
    auto bytes = GgufBytes::header(0, 3)
                     .entry("general.x", ValueType::u32, 1U)
                     .entry("b", ValueType::u8, std::uint8_t{0});
    EXPECT_THAT(refusal_of_bytes(bytes.entry("general.x", ValueType::u32, second).get()),
                AllOf(HasSubstr("metadata key \"general.x\": key"), HasSubstr("each key once at byte 63,"),
                      HasSubstr("first at byte 24")));
  }
}

TEST(TensorTable, CutAnywhere) {
  auto bytes = GgufBytes::header(2, 1).entry("general.architecture", "qwen3");
  bytes.tensor("blk.0.a", {32, 2}, kQ8, 0).tensor("blk.0.b", {3}, kF32, 96);
  const std::size_t table_end = bytes.size();
  bytes.pad();
  const std::size_t data_start = bytes.size();
  bytes.zeros(96 + 12);
  const std::size_t tensors_end = bytes.size();
  const std::string whole = bytes.pad().get();
  for (std::size_t length = 0; length < tensors_end; ++length) {
    const std::string message = refusal_of_bytes(whole.substr(0, length));
    if (length < table_end) {
      EXPECT_THAT(message, ::testing::AnyOf(HasSubstr("cut off"), HasSubstr("empty"))) << length;
    } else {
      const std::string tensor = length < data_start + 68 ? "\"blk.0.a\"" : "\"blk.0.b\"";
      EXPECT_THAT(message, AllOf(HasSubstr(fmt::format("tensor {}: data", tensor)), HasSubstr("cut off"),
                                 HasSubstr(fmt::format("a file of {} bytes", length))));
    }
  }
  // Padding behind the last tensor holds nothing: a file that lacks it, or part of it, loads.
  const TemporaryFolder folder;
  for (std::size_t length = tensors_end; length <= whole.size(); ++length) {
    const auto file = gguf::File::open(folder.write("x.gguf", whole.substr(0, length)));
    EXPECT_EQ(file.data(file.tensors()[1]).size(), 12U);
  }
}

// Whatever one byte is changed to, the file loads or is refused; sanitizers watch.
TEST(TensorTable, EveryByteChanged) {
  auto bytes = GgufBytes::header(2, 4)
                   .entry("general.architecture", "qwen3")
                   .entry("a", ValueType::boolean, std::uint8_t{1});
  bytes.entry("general.alignment", ValueType::u32, 32U);
  bytes.key("s", ValueType::array).number(ValueType::string).number(std::uint64_t{2}).text("x").text("yz");
  bytes.tensor("blk.0.a", {32, 2}, kQ8, 0).tensor("blk.0.b", {3}, kF32, 96).pad();
  const std::size_t header_bytes = bytes.size();
  const std::string whole = bytes.zeros(128).get();
  int refused = 0;
  for (std::size_t at = 0; at < header_bytes; ++at) {
    for (const int change : {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xFF}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      try {
        const auto header =
            gguf::parse_header(gguf::MemorySource(std::as_bytes(std::span(changed))), "memory");
        ASSERT_LE(header.data_end, whole.size());
        for (const auto& tensor : header.tensors) {
          ASSERT_LE(header.data_start + tensor.offset + tensor.bytes, header.data_end);
        }
      } catch (const Error& error) {
        ++refused;
        ASSERT_THAT(error.what(), ::testing::StartsWith("memory: "));
      }
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace inferno::test
