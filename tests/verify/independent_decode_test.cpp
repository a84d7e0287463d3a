// The definitions that `verify` holds the block formats against, checked by hand.

#include "verify/independent_decode.hpp"

#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "quant/format.hpp"

namespace inferno::verify {
namespace {

using quant::TensorType;

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

TEST(IndependentDecode, EveryFormatHasADefinition) {
  const std::vector<std::byte> zeros(1024);
  for (const auto& format : quant::formats()) {
    EXPECT_TRUE(decode_element(format.type, zeros.data(), 0)) << format.name;
  }
}

TEST(IndependentDecode, NoDefinitionIsSaid) {
  const std::vector<std::byte> zeros(1024);
  EXPECT_FALSE(decode_element(static_cast<TensorType>(39), zeros.data(), 0));
}

TEST(IndependentDecode, BinaryNumbers) {
  EXPECT_EQ(binary_value(0x3C00, 5, 10), 1.0);
  EXPECT_EQ(binary_value(0xC000, 5, 10), -2.0);
  EXPECT_EQ(binary_value(0x0001, 5, 10), std::ldexp(1.0, -24));
  EXPECT_EQ(binary_value(0x03FF, 5, 10), std::ldexp(1023.0, -24));
  EXPECT_EQ(binary_value(0x7BFF, 5, 10), 65504.0);
  EXPECT_TRUE(std::signbit(binary_value(0x8000, 5, 10)));
  EXPECT_EQ(binary_value(0x7C00, 5, 10), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(binary_value(0x7C01, 5, 10)));
  EXPECT_EQ(binary_value(0x3FC0, 8, 7), 1.5);
  EXPECT_EQ(binary_value(0x00000001, 8, 23), static_cast<double>(std::numeric_limits<float>::denorm_min()));
  EXPECT_EQ(binary_value(0xFF7FFFFF, 8, 23), static_cast<double>(std::numeric_limits<float>::lowest()));
}

TEST(IndependentDecode, Q8_0) {
  auto block = bytes({0x00, 0x38});  // scale 0.5
  for (int i = 0; i < 32; ++i) block.push_back(static_cast<std::byte>(i == 1 ? 0x80 : i));
  EXPECT_EQ(decode_element(TensorType::q8_0, block.data(), 0), 0.0);
  EXPECT_EQ(decode_element(TensorType::q8_0, block.data(), 1), -64.0);
  EXPECT_EQ(decode_element(TensorType::q8_0, block.data(), 31), 15.5);
}

TEST(IndependentDecode, Q4_0SplitsNibblesInHalves) {
  auto block = bytes({0x00, 0x3C});  // scale 1
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<std::byte>(i == 2 ? 0xF1 : 0x88));
  EXPECT_EQ(decode_element(TensorType::q4_0, block.data(), 2), -7.0);  // low nibble 1
  EXPECT_EQ(decode_element(TensorType::q4_0, block.data(), 18), 7.0);  // high nibble 15
  EXPECT_EQ(decode_element(TensorType::q4_0, block.data(), 0), 0.0);
}

TEST(IndependentDecode, Q5_0TakesTheFifthBitFromItsWord) {
  auto block = bytes({0x00, 0x3C, 0x04, 0x00, 0x00, 0x80});  // scale 1, fifth bits of elements 2 and 31
  for (int i = 0; i < 16; ++i) block.push_back(static_cast<std::byte>(0x31));
  EXPECT_EQ(decode_element(TensorType::q5_0, block.data(), 0), -15.0);
  EXPECT_EQ(decode_element(TensorType::q5_0, block.data(), 2), 1.0);
  EXPECT_EQ(decode_element(TensorType::q5_0, block.data(), 30), -13.0);
  EXPECT_EQ(decode_element(TensorType::q5_0, block.data(), 31), 3.0);
}

TEST(IndependentDecode, LaterBlocksOfARow) {
  auto blocks = bytes({0x00, 0x3C});
  blocks.resize(34);
  blocks.push_back(std::byte{0x00});
  blocks.push_back(std::byte{0x40});  // second block: scale 2
  for (int i = 0; i < 32; ++i) blocks.push_back(static_cast<std::byte>(i));
  EXPECT_EQ(decode_element(TensorType::q8_0, blocks.data(), 32 + 7), 14.0);
}

}  // namespace
}  // namespace inferno::verify
