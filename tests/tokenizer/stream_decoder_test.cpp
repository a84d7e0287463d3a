#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tokenizer/fixtures.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno {
namespace {

bool valid(std::string_view text) {
  return utf8_valid_prefix(text) == text.size();
}

std::vector<std::string> stream(const std::vector<std::string>& pieces) {
  StreamDecoder decoder;
  std::vector<std::string> texts;
  for (const auto& piece : pieces) texts.push_back(decoder.push(piece));
  texts.push_back(decoder.finish());
  for (const auto& text : texts) EXPECT_TRUE(valid(text)) << testing::PrintToString(text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(StreamDecoder, HoldsBackHalfACharacter) {
  EXPECT_EQ(stream({"a", "\xF0\x9D", "\x84\x9E", "b"}), (Texts{"a", "", "\U0001D11E", "b", ""}));
  EXPECT_EQ(stream({"\xF0", "\x9F", "\x98", "\x80"}), (Texts{"", "", "", "\U0001F600", ""}));
  EXPECT_EQ(stream({"x\xE2\x80",
                    "\x8D"
                    "y\xC3"}),
            (Texts{"x", "\u200Dy", "\uFFFD"}));
  EXPECT_EQ(stream({"", "ok", ""}), (Texts{"", "ok", "", ""}));
}

TEST(StreamDecoder, ReplacesWhatCanBeNoCharacterAtOnce) {
  EXPECT_EQ(stream({"a\xFF", "b"}), (Texts{"a\uFFFD", "b", ""}));
  EXPECT_EQ(stream({"\xF0\x9F", "a"}), (Texts{"", "\uFFFDa", ""}));
  EXPECT_EQ(stream({"\xF0\x9F", "\xF0\x9F\x98", "\x80"}), (Texts{"", "\uFFFD", "\U0001F600", ""}));
  EXPECT_EQ(stream({"\xED\xA0\x80"}), (Texts{"\uFFFD\uFFFD\uFFFD", ""}));
  EXPECT_EQ(stream({"\xC0\x80"}), (Texts{"\uFFFD\uFFFD", ""}));
  EXPECT_EQ(stream({"\xE4\xB8"}), (Texts{"", "\uFFFD"}));
  EXPECT_EQ(stream({std::string("a\0b", 3)}), (Texts{std::string("a\0b", 3), ""}));
}

TEST(StreamDecoder, CanBeUsedAgainAfterFinish) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.push("\xE4\xB8"), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.push("\xAD"), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, TheCutsDoNotMatter) {
  test::Dice dice(11);
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (std::size_t count = dice(12); count > 0; --count) {
      if (dice(3) == 0) {
        bytes.push_back(static_cast<char>(dice(256)));
      } else {
        append_utf8(static_cast<char32_t>(dice(4) == 0 ? 0x10000 + dice(0x1000) : dice(0xD000)), bytes);
      }
    }
    StreamDecoder decoder;
    std::string joined;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = 1 + dice(4);
      const std::string text = decoder.push(std::string_view(bytes).substr(at, length));
      ASSERT_TRUE(valid(text));
      joined += text;
      at += length;
    }
    joined += decoder.finish();
    ASSERT_EQ(joined, to_valid_utf8(bytes)) << testing::PrintToString(bytes);
    if (valid(bytes)) {
      ASSERT_EQ(joined, bytes);
    }
  }
}

}  // namespace
}  // namespace inferno
