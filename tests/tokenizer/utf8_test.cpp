#include "tokenizer/utf8.hpp"

#include <gtest/gtest.h>
#include <string>

namespace inferno {
namespace {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    std::string text;
    append_utf8(code_point, text);
    const Utf8Step step = utf8_step(text);
    const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    ASSERT_EQ(step.valid, !surrogate) << static_cast<std::uint32_t>(code_point);
    if (surrogate) continue;
    ASSERT_EQ(step.length, text.size());
    ASSERT_EQ(step.code_point, code_point);
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Step part = utf8_step(std::string_view(text).substr(0, cut));
      ASSERT_TRUE(!part.valid && part.incomplete && part.length == cut)
          << static_cast<std::uint32_t>(code_point) << " cut at " << cut;
    }
  }
}

TEST(Utf8, BrokenSequencesAreCutAsUnicodeRecommends) {
  struct Case {
    std::string text;
    std::size_t length;
    bool incomplete;
  };
  const Case cases[] = {
      {"\xFF", 1, false},         {"\x80", 1, false},
      {"\xC0\x80", 1, false},     {"\xC1\xBF", 1, false},
      {"\xED\xA0\x80", 1, false}, {"\xE0\x9F\x80", 1, false},
      {"\xF0\x8F\x80", 1, false}, {"\xF4\x90\x80\x80", 1, false},
      {"\xF5\x80", 1, false},     {"\xE2\x82", 2, true},
      {"\xF0\x9F", 2, true},      {"\xF0\x9F\x98", 3, true},
      {"\xF0\x9F\x61", 2, false}, {"\xE2\x28\xA1", 1, false},
      {"\xC3", 1, true},          {"\xF0\x9F\x98\xC3", 3, false},
  };
  for (const auto& [text, length, incomplete] : cases) {
    const Utf8Step step = utf8_step(text);
    EXPECT_FALSE(step.valid) << testing::PrintToString(text);
    EXPECT_EQ(step.length, length) << testing::PrintToString(text);
    EXPECT_EQ(step.incomplete, incomplete) << testing::PrintToString(text);
  }
}

TEST(Utf8, ValidPrefixEndsAtTheFirstBrokenByte) {
  EXPECT_EQ(utf8_valid_prefix(""), 0U);
  const std::string good = "plain text, \xC3\xA9, \xE4\xB8\xAD, \xF0\x9F\x98\x80 and more plain text";
  EXPECT_EQ(utf8_valid_prefix(good), good.size());
  for (std::size_t padding = 0; padding < 20; ++padding) {
    const std::string text = std::string(padding, 'a') + "\xFF" + "bbbbbbbbbbbbbbbb";
    EXPECT_EQ(utf8_valid_prefix(text), padding);
  }
  EXPECT_EQ(utf8_valid_prefix(std::string("a\0b", 3)), 3U);
}

}  // namespace
}  // namespace inferno
