#include "tokenizer/normalizer.hpp"

#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utf8proc.h>
#include <vector>

#include "tokenizer/fixtures.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno {
namespace {

TEST(Normalizer, ComposesAndOrders) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"plain", "plain"},
      {"cafe\u0301", "caf\u00E9"},
      {"\u212B \u2126 \u212A", "\u00C5 \u03A9 K"},       // singletons
      {"\uFB01 \uFDFA \u00BD", "\uFB01 \uFDFA \u00BD"},  // compatibility characters stay
      {"\u0958", "\u0915\u093C"},                        // excluded from composition
      {"a\u0301\u0316", "\u00E1\u0316"},                 // ordered, then composed past the lower mark
      {"a\u0316\u0301", "\u00E1\u0316"},
      {"a\u0316\u0317\u0301", "\u00E1\u0316\u0317"},
      {"\u1112\u1161\u11AB", "\uD55C"},
      {"\uD558\u11AB", "\uD55C"},
      {"\uB6B8\u11A7x", "\uB6B8\u11A7x"},  // U+11A7 is no trailing consonant
      {"\u11A7", "\u11A7"},
      {"\u11A7\u11A7e\u0301\u11A7", "\u11A7\u11A7\u00E9\u11A7"},
      {"<\u0338>\u0338", "\u226E\u226F"},
      {"\u0344", "\u0308\u0301"},
      {"\U0001D15E", "\U0001D157\U0001D165"},
      {"\u1100\u1161\u11A8\u0301", "\uAC01\u0301"},
      {std::string("a\0e\u0301", 5), std::string("a\0\u00E9", 4)},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(nfc(text), expected) << text;
}

TEST(Normalizer, CertaintyIsNeverWrong) {
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text = "e";
    append_utf8(code_point, text);
    if (certainly_nfc(text)) {
      ASSERT_EQ(nfc(text), text) << static_cast<std::uint32_t>(code_point);
    }
  }
  EXPECT_TRUE(certainly_nfc("na\u00EFve, caf\u00E9"));
  EXPECT_FALSE(certainly_nfc("cafe\u0301"));
}

TEST(Normalizer, AgreesWithUtf8procAtOnce) {
  test::Dice dice(3);
  const std::vector<std::u32string> pools = {
      U"aeE<>=", U"\u0300\u0301\u0316\u0327\u0338\u0345\u05B0\u093C\u3099",
      U"\u00E9\u1E14\u01D5\u0958\u212B\u304B\u30CF", U"\u1100\u1161\u11A8\uAC00\uAC01\u11C2\u1175",
      U" x\U0001D157\U0001D165"};
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::size_t count = 1 + dice(8); count > 0; --count) {
      const auto& pool = pools[dice(pools.size())];
      append_utf8(pool[dice(pool.size())], text);
    }
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> expected(
        utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str())), &std::free);
    ASSERT_EQ(nfc(text), reinterpret_cast<const char*>(expected.get())) << testing::PrintToString(text);
  }
}

TEST(Normalizer, AMegabyteOfMarksTakesNoLongerThanText) {
  // Falling and alternating classes are what ordering by exchange of neighbours is quadratic in.
  std::string falling = "a";
  for (const auto* mark : {"\u0345", "\u0301", "\u0316", "\u05B0"}) falling += test::repeat(mark, 125'000);
  const std::string texts[] = {test::repeat("\u0301", 500'000), test::repeat("\u0301\u0316", 250'000),
                               falling};
  for (const auto& text : texts) {
    std::string normalized;
    EXPECT_LT(test::seconds_of([&] { normalized = nfc(text); }), 3.0);
    EXPECT_EQ(nfc(normalized), normalized);
  }
}

}  // namespace
}  // namespace inferno
