#include "step/block_transfer.hpp"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace inferno {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const BlockShape kShape{"format", 3, 2, 64, 16, 24};

std::vector<std::byte> exported(const BlockShape& shape = kShape, std::uint32_t count = 2) {
  BlockExport made = start_export(shape, count);
  EXPECT_EQ(made.bytes.size(), made.payload + shape.block_bytes * count);
  for (std::size_t i = made.payload; i < made.bytes.size(); ++i) made.bytes[i] = static_cast<std::byte>(i);
  return made.bytes;
}

std::string refusal(std::span<const std::byte> bytes, std::size_t count = 2) {
  try {
    check_import(bytes, kShape, count);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(BlockTransfer, TakesWhatItMade) {
  const auto bytes = exported();
  const auto payload = check_import(bytes, kShape, 2);
  EXPECT_EQ(payload.size(), 48U);
  EXPECT_EQ(payload.data(), bytes.data() + bytes.size() - 48);
  EXPECT_EQ(refusal(exported(kShape, 0), 0), "accepted");
}

TEST(BlockTransfer, TheFormIsFixed) {
  const auto bytes = exported();
  const unsigned char expected[] = {'I', 'K', 'V', 'B', 1, 0, 0,  0, 6, 0, 0,  0, 'f', 'o', 'r', 'm',
                                    'a', 't', 3,   0,   0, 0, 2,  0, 0, 0, 64, 0, 0,   0,   16,  0,
                                    0,   0,   2,   0,   0, 0, 24, 0, 0, 0, 0,  0, 0,   0};
  ASSERT_EQ(bytes.size(), sizeof(expected) + 48);
  EXPECT_EQ(std::memcmp(bytes.data(), expected, sizeof(expected)), 0);
}

TEST(BlockTransfer, NamesWhatDiffers) {
  const auto differing = [](auto&& change) {
    BlockShape shape = kShape;
    change(shape);
    return refusal(exported(shape));
  };
  EXPECT_THAT(differing([](BlockShape& shape) { shape.cache_format = "other"; }),
              AllOf(HasSubstr("cache_format"), HasSubstr("\"format\""), HasSubstr("\"other\"")));
  EXPECT_THAT(differing([](BlockShape& shape) { shape.cache_format = ""; }), HasSubstr("cache_format"));
  EXPECT_THAT(differing([](BlockShape& shape) { shape.layers = 4; }),
              HasSubstr("layers: expected 3, found 4"));
  EXPECT_THAT(differing([](BlockShape& shape) { shape.kv_heads = 1; }),
              HasSubstr("kv_heads: expected 2, found 1"));
  EXPECT_THAT(differing([](BlockShape& shape) { shape.head_dim = 65; }),
              HasSubstr("head_dim: expected 64, found 65"));
  EXPECT_THAT(differing([](BlockShape& shape) { shape.block_size = 64; }),
              HasSubstr("block_size: expected 16, found 64"));
  EXPECT_THAT(differing([](BlockShape& shape) { shape.block_bytes = 25; }),
              HasSubstr("block_bytes: expected 24, found 25"));
  EXPECT_THAT(refusal(exported(), 3),
              HasSubstr("count: expected 3 blocks (as many as are to be filled), found 2"));
}

TEST(BlockTransfer, EveryCutIsRefused) {
  const auto bytes = exported();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(refusal(std::span(bytes).first(size)), "accepted") << size;
  }
}

TEST(BlockTransfer, EveryChangedHeaderBitIsRefused) {
  const auto bytes = exported();
  for (std::size_t i = 0; i < bytes.size() - 48; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      auto changed = bytes;
      changed[i] ^= std::byte{1} << bit;
      EXPECT_NE(refusal(changed), "accepted") << "byte " << i << " bit " << bit;
    }
  }
}

TEST(BlockTransfer, HostileNamesStayOneLine) {
  BlockShape shape = kShape;
  shape.cache_format = std::string(5000, 'x') + "\n\x1B[31m";
  const std::string text = refusal(exported(shape));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_EQ(text.find('\x1B'), std::string::npos);
  EXPECT_LT(text.size(), 400U);
}

}  // namespace
}  // namespace inferno
