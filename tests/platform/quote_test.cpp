#include "platform/quote.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <string>

namespace inferno {
namespace {

using namespace std::string_literals;

TEST(Quote, PlainTextStays) {
  EXPECT_EQ(quote(""), "\"\"");
  EXPECT_EQ(quote("blk.0.attn_q.weight"), "\"blk.0.attn_q.weight\"");
  EXPECT_EQ(quote("grüße 你好 \U0001F600"), "\"grüße 你好 \U0001F600\"");
}

TEST(Quote, WhatUpsetsATerminalIsEscaped) {
  EXPECT_EQ(quote("a\n\r\t\"\\b"), R"("a\n\r\t\"\\b")");
  EXPECT_EQ(quote("\x1b[31m\0\x7f"s), R"("\x1b[31m\x00\x7f")");
  EXPECT_EQ(quote("\xc2\x9b"), R"("\u{9b}")");        // an 8-bit escape
  EXPECT_EQ(quote("\xe2\x80\xae"), R"("\u{202e}")");  // text runs backwards
  EXPECT_EQ(quote("\xe2\x80\x8b"), R"("\u{200b}")");  // nothing to see
  EXPECT_EQ(quote("\xef\xbb\xbf"), R"("\u{feff}")");
  EXPECT_EQ(quote("\xf3\xa0\x81\x81"), R"("\u{e0041}")");  // a tag
}

TEST(Quote, BrokenUtf8IsEscapedByteByByte) {
  EXPECT_EQ(quote("\xff"), R"("\xff")");
  EXPECT_EQ(quote("\xc0\x80"), R"("\xc0\x80")");
  EXPECT_EQ(quote("\xed\xa0\x80"), R"("\xed\xa0\x80")");
  EXPECT_EQ(quote("\xf0\x9f\x98"), R"("\xf0\x9f\x98")");
  EXPECT_EQ(quote("\xf4\x90\x80\x80"), R"("\xf4\x90\x80\x80")");
  EXPECT_EQ(quote("\xe0\x80\xaf"), R"("\xe0\x80\xaf")");
  EXPECT_EQ(quote("\xc3(z"), R"("\xc3(z")");
}

TEST(Printable, IsALineWithoutQuotes) {
  EXPECT_EQ(printable("he said \"a\\b\""), "he said \"a\\b\"");
  EXPECT_EQ(printable("a\n\x1b[31mb\x7f\xff"), R"(a\n\x1b[31mb\x7f\xff)");
  EXPECT_EQ(printable("123456789", 8), "12345678... (9 bytes)");
}

TEST(Quote, LongTextIsShortened) {
  EXPECT_EQ(quote("12345678", 8), "\"12345678\"");
  EXPECT_EQ(quote("123456789", 8), "\"12345678...\" (9 bytes)");
  EXPECT_EQ(quote("123456\xe4\xbd\xa0", 8), "\"123456...\" (9 bytes)");  // no half characters
  EXPECT_LT(quote(std::string(1'000'000, '\x01')).size(), 120U);
}

TEST(Quote, EveryBytePairIsPrintable) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string quoted = quote(std::string{static_cast<char>(first), static_cast<char>(second)});
      ASSERT_TRUE(std::all_of(quoted.begin(), quoted.end(),
                              [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; }));
    }
  }
}

}  // namespace
}  // namespace inferno
