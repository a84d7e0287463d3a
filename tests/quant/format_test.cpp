#include "quant/format.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <vector>
#include <xxhash.h>

#include <inferno/error.hpp>

#include "quant/half.hpp"
#include "quant/tensor_layout.hpp"

namespace inferno::quant {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kBlocks = 4096;

std::uint32_t next_random(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return static_cast<std::uint32_t>(state >> 32U);
}

/// Blocks of magnitudes from 2^-20 to 2^15, with zeros and repeated extremes of both signs among their
/// elements.
std::vector<float> sample() {
  std::uint64_t state = 1;
  std::vector<float> values;
  for (std::size_t block = 0; block < kBlocks; ++block) {
    const int exponent = static_cast<int>(next_random(state) % 36U) - 20;
    for (int i = 0; i < 32; ++i) {
      float value = static_cast<float>(static_cast<std::int32_t>(next_random(state))) * 0x1p-31F;
      value = std::ldexp(value, exponent);
      switch (next_random(state) % 16U) {
        case 0:
          value = 0.0F;
          break;
        case 1:
          value = std::ldexp(1.0F, exponent);
          break;
        case 2:
          value = -std::ldexp(1.0F, exponent);
          break;
        default:
          break;
      }
      values.push_back(value);
    }
  }
  return values;
}

std::vector<std::byte> encode(const Format& format, const std::vector<float>& values) {
  const std::size_t blocks = values.size() / format.block_elements;
  std::vector<std::byte> bytes(blocks * format.block_bytes);
  format.encode(values.data(), blocks, bytes.data());
  return bytes;
}

std::vector<float> decode(const Format& format, const std::vector<std::byte>& bytes) {
  const std::size_t blocks = bytes.size() / format.block_bytes;
  std::vector<float> values(blocks * format.block_elements);
  format.decode(bytes.data(), blocks, values.data());
  return values;
}

std::vector<std::byte> bytes_of(std::initializer_list<int> list) {
  std::vector<std::byte> bytes;
  for (const int value : list) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Formats, Table) {
  const std::tuple<TensorType, std::string_view, std::uint32_t, std::uint32_t> expected[] = {
      {TensorType::f32, "f32", 1, 4},     {TensorType::f16, "f16", 1, 2},
      {TensorType::q4_0, "q4_0", 32, 18}, {TensorType::q5_0, "q5_0", 32, 22},
      {TensorType::q8_0, "q8_0", 32, 34}, {TensorType::bf16, "bf16", 1, 2}};
  ASSERT_EQ(formats().size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const auto& [type, name, elements, bytes] = expected[i];
    const Format& format = formats()[i];
    EXPECT_EQ(format.type, type);
    EXPECT_EQ(format.name, name);
    EXPECT_EQ(format.block_elements, elements);
    EXPECT_EQ(format.block_bytes, bytes);
    EXPECT_EQ(find_format(name), &format);
    EXPECT_EQ(find_format(static_cast<std::uint32_t>(type)), &format);
    EXPECT_EQ(&format_of(type), &format);
  }
  EXPECT_EQ(find_format("Q8_0"), find_format("q8_0"));
  EXPECT_EQ(find_format("BF16"), find_format("bf16"));
  for (const std::string_view name : {"", "q8", "q8_00", "f3", "q8_1"})
    EXPECT_EQ(find_format(name), nullptr) << name;
  for (const std::uint32_t id : {3U, 4U, 7U, 31U, 39U, 0xFFFFFFFFU})
    EXPECT_EQ(find_format(id), nullptr) << id;
  EXPECT_EQ(accepted_formats(), "f32 (0), f16 (1), q4_0 (2), q5_0 (6), q8_0 (8), bf16 (30)");
  EXPECT_THROW(format_of(static_cast<TensorType>(3)), Error);
}

TEST(TensorLayouts, AgreeWithTheFormats) {
  std::uint32_t last = 0;
  for (const TensorLayout& layout : tensor_layouts()) {
    EXPECT_TRUE(layout.type_id == 0 || layout.type_id > last);
    last = layout.type_id;
    EXPECT_EQ(find_layout(layout.type_id), &layout);
    EXPECT_GT(layout.block_elements, 0U);
    EXPECT_GT(layout.block_bytes, 0U);
  }
  for (const Format& format : formats()) {
    const TensorLayout* layout = find_layout(static_cast<std::uint32_t>(format.type));
    ASSERT_NE(layout, nullptr);
    EXPECT_EQ(layout->name, format.name);
    EXPECT_EQ(layout->block_elements, format.block_elements);
    EXPECT_EQ(layout->block_bytes, format.block_bytes);
  }
  EXPECT_EQ(find_layout(12)->name, "q4_k");
  EXPECT_EQ(find_layout(12)->block_bytes, 144U);
  for (const std::uint32_t id : {37U, 38U, 43U, 0xFFFFFFFFU}) EXPECT_EQ(find_layout(id), nullptr) << id;
}

TEST(Formats, ZeroBlocksTouchNothing) {
  for (const Format& format : formats()) {
    format.decode(nullptr, 0, nullptr);
    format.encode(nullptr, 0, nullptr);
  }
}

// One block each with all its parts different, its values worked out by hand.
TEST(Q80, DecodesByDefinition) {
  std::vector<std::byte> block = bytes_of({0x00, 0x38});  // 0.5
  for (int i = 0; i < 32; ++i) block.push_back(static_cast<std::byte>(i * 8 - 128));
  const std::vector<float> values = decode(format_of(TensorType::q8_0), block);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(values[static_cast<std::size_t>(i)], 0.5F * static_cast<float>(i * 8 - 128));
}

TEST(Q40, DecodesByDefinition) {
  std::vector<std::byte> block = bytes_of({0x00, 0xC0});  // -2
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<std::byte>(i | (15 - i) << 4));
  const std::vector<float> values = decode(format_of(TensorType::q4_0), block);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)], -2.0F * static_cast<float>(i - 8));
    EXPECT_EQ(values[static_cast<std::size_t>(i + 16)], -2.0F * static_cast<float>(15 - i - 8));
  }
}

TEST(Q50, DecodesByDefinition) {
  std::vector<std::byte> block = bytes_of({0x00, 0x3C, 0x55, 0x55, 0xF0, 0x0F});  // 1; fifth bits
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<std::byte>(i | (15 - i) << 4));
  const std::vector<float> values = decode(format_of(TensorType::q5_0), block);
  for (int i = 0; i < 16; ++i) {
    const int low = i + (i % 2 == 0 ? 16 : 0);
    const int high = 15 - i + (i >= 4 && i < 12 ? 16 : 0);
    EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(low - 16)) << i;
    EXPECT_EQ(values[static_cast<std::size_t>(i + 16)], static_cast<float>(high - 16)) << i;
  }
}

// Every scale a half can be, every quant: the product in float must be the product in double.
TEST(BlockFormats, DecodeIsExactForEveryScale) {
  for (const TensorType type : {TensorType::q4_0, TensorType::q5_0, TensorType::q8_0}) {
    const Format& format = format_of(type);
    std::vector<std::byte> block(format.block_bytes);
    std::uint64_t state = 7;
    std::vector<float> units(32);
    std::vector<float> values(32);
    for (std::uint32_t half = 0; half < 65536; ++half) {
      for (std::size_t i = 2; i < block.size(); ++i) block[i] = static_cast<std::byte>(next_random(state));
      const std::array<std::uint16_t, 2> scales{0x3C00,
                                                static_cast<std::uint16_t>(half)};  // 1, to learn the quants
      std::memcpy(block.data(), &scales[0], 2);
      format.decode(block.data(), 1, units.data());
      std::memcpy(block.data(), &scales[1], 2);
      format.decode(block.data(), 1, values.data());
      const double scale = half_to_float(scales[1]);
      for (std::size_t i = 0; i < 32; ++i) {
        const double expected = scale * units[i];
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(values[i]));
        } else {
          ASSERT_EQ(static_cast<double>(values[i]), expected) << half;
        }
      }
    }
  }
}

// Hashes of what the formats' reference quantizers (plain C, no fused multiply-add) make of the same sample.
TEST(BlockFormats, EncodeAsTheReferenceQuantizersDo) {
  const std::vector<float> values = sample();
  ASSERT_EQ(XXH3_64bits(values.data(), values.size() * sizeof(float)), 0xf7f4207ae592403dU);
  const std::pair<TensorType, std::uint64_t> expected[] = {{TensorType::q8_0, 0xc740c50d85871cfeU},
                                                           {TensorType::q4_0, 0x8aefdedfe62bbb57U},
                                                           {TensorType::q5_0, 0x1f0142b4720a3460U}};
  for (const auto& [type, hash] : expected) {
    const std::vector<std::byte> bytes = encode(format_of(type), values);
    EXPECT_EQ(XXH3_64bits(bytes.data(), bytes.size()), hash) << format_of(type).name;
  }
}

TEST(BlockFormats, ErrorIsHalfAStep) {
  const std::vector<float> values = sample();
  const std::pair<TensorType, float> steps[] = {
      {TensorType::q8_0, 127.0F}, {TensorType::q5_0, 16.0F}, {TensorType::q4_0, 8.0F}};
  for (const auto& [type, levels] : steps) {
    const std::vector<float> decoded = decode(format_of(type), encode(format_of(type), values));
    for (std::size_t block = 0; block < kBlocks; ++block) {
      const float* source = values.data() + block * 32;
      float largest = 0.0F;
      for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(source[i]));
      // The positive end of the 4- and 5-bit formats is one step short; the scale is rounded to a half, whose
      // smallest step is 2^-24.
      const float step = largest / levels;
      const float bound =
          (type == TensorType::q8_0 ? 0.5F : 1.0F) * step + largest * 0x1p-10F + levels * 0x1p-25F;
      for (std::size_t i = 0; i < 32; ++i) {
        ASSERT_LE(std::fabs(decoded[block * 32 + i] - source[i]), bound) << format_of(type).name;
      }
    }
  }
}

TEST(BlockFormats, ZerosAndTinyBlocks) {
  for (const TensorType type : {TensorType::q4_0, TensorType::q5_0, TensorType::q8_0}) {
    for (const float value : {0.0F, -0.0F, 1e-45F, -1e-40F, 1e-38F}) {
      const std::vector<float> values(32, value);
      for (const float decoded : decode(format_of(type), encode(format_of(type), values)))
        EXPECT_EQ(decoded, 0.0F);
    }
  }
}

TEST(BlockFormats, RefuseWhatTheyCannotHold) {
  const auto message = [](TensorType type, float value) {
    std::vector<float> values(64, 1.0F);
    values[35] = value;
    try {
      encode(format_of(type), values);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const TensorType type : {TensorType::q4_0, TensorType::q5_0, TensorType::q8_0}) {
    const std::string name(format_of(type).name);
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      EXPECT_THAT(message(type, value), AllOf(HasSubstr(name), HasSubstr("finite"), HasSubstr("element 3")));
      EXPECT_THAT(message(type, -value), HasSubstr("finite"));
    }
    EXPECT_THAT(message(type, 1e8F), AllOf(HasSubstr(name), HasSubstr("65520")));
    EXPECT_EQ(message(type, 65504.0F * 8), "no error");
  }
}

TEST(FloatFormats, KeepTheirValues) {
  const std::vector<float> values{
      0.0F, -0.0F, 1.0F, -2.5F, 65504.0F, 0x1p-24F, std::numeric_limits<float>::infinity()};
  for (const TensorType type : {TensorType::f32, TensorType::f16}) {
    EXPECT_EQ(decode(format_of(type), encode(format_of(type), values)), values);
  }
  const std::vector<float> short_values{0.0F,  1.0F,   -2.5F,
                                        3e38F, 1e-40F, -std::numeric_limits<float>::infinity()};
  const auto decoded = decode(format_of(TensorType::bf16), encode(format_of(TensorType::bf16), short_values));
  for (std::size_t i = 0; i < decoded.size(); ++i)
    EXPECT_EQ(decoded[i], bfloat16_to_float(float_to_bfloat16(short_values[i])));
  EXPECT_EQ(encode(format_of(TensorType::f16), {1.0F, -2.0F}), bytes_of({0x00, 0x3C, 0x00, 0xC0}));
  EXPECT_EQ(encode(format_of(TensorType::bf16), {1.0F, -2.0F}), bytes_of({0x80, 0x3F, 0x00, 0xC0}));
  EXPECT_EQ(encode(format_of(TensorType::f32), {1.0F}), bytes_of({0x00, 0x00, 0x80, 0x3F}));
}

}  // namespace
}  // namespace inferno::quant
