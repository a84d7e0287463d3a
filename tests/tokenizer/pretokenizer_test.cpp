#include "tokenizer/pretokenizer.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tokenizer/fixtures.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno {
namespace {

using Words = std::vector<std::string>;

Words split(const Pretokenizer& pretokenizer, const std::string& text) {
  std::vector<std::size_t> ends;
  pretokenizer.split(text, ends);
  Words words;
  std::size_t begin = 0;
  for (const auto end : ends) {
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return words;
}

class PretokenizerTest : public testing::TestWithParam<bool> {
 protected:
  Pretokenizer pretokenizer_{Pretokenizer::Options{.jit = GetParam()}};
};

TEST_P(PretokenizerTest, CutsAsThePatternSays) {
  const std::pair<std::string, Words> cases[] = {
      {"", {}},
      {"Hello world", {"Hello", " world"}},
      {"12 345", {"1", "2", " ", "3", "4", "5"}},
      {"I'LL we'VE x's", {"I", "'LL", " we", "'VE", " x", "'s"}},
      {"'\u017F a'\u017Fb",
       {"'\u017F", " a", "'\u017F", "b"}},  // the long s is an s to those who ignore case
      {"it’s", {"it", "’s"}},
      {"a   b", {"a", "  ", " b"}},
      {"a  \n\n  b", {"a", "  \n\n", " ", " b"}},
      {"x\r\n\r\ny", {"x", "\r\n\r\n", "y"}},
      {"end  ", {"end", "  "}},
      {" !?\n\nx", {" !?\n\n", "x"}},
      {"foo_bar", {"foo", "_bar"}},
      {"\t\tx", {"\t", "\tx"}},
      {"\u00A0x", {"\u00A0x"}},
      {"\u3000\u3000中", {"\u3000", "\u3000中"}},
      {"a\u0301b", {"a", "\u0301b"}},  // a mark is no letter
      {"½Ⅳ²٤", {"½", "Ⅳ", "²", "٤"}},
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(split(pretokenizer_, text), words) << text;
}

TEST_P(PretokenizerTest, WhiteSpaceIsUnicodes) {
  // After "!", two characters c are: white space: one more word; numbers: two more; letters and all others:
  // none. A line end belongs to the "!" before it, too.
  std::u32string spaces;
  for (char32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text = "!";
    append_utf8(code_point, text);
    append_utf8(code_point, text);
    std::vector<std::size_t> ends;
    pretokenizer_.split(text, ends);
    if (ends.size() == 2) spaces.push_back(code_point);
  }
  EXPECT_EQ(spaces,
            U"\t\v\f \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A"
            U"\u2028\u2029\u202F\u205F\u3000");
}

TEST_P(PretokenizerTest, KnowsLettersAndNumbersThatUnicode15And16Added) {
  for (const char* letter :
       {"\U00031350", "\U000323AF", "\U0002EBF0", "\u1C89", "\uA7DC", "\U00011F02", "\U00016D6C"}) {
    const std::string text = std::string("x") + letter + "y";
    EXPECT_EQ(split(pretokenizer_, text), Words{text}) << letter;
  }
  for (const char* number : {"\U0001E4F0", "\U00010D49", "\U0001CCF5"}) {
    EXPECT_EQ(split(pretokenizer_, std::string("x") + number + number), (Words{"x", number, number}))
        << number;
  }
}

TEST_P(PretokenizerTest, AMegabyteOfAnythingFits) {
  const std::string texts[] = {std::string(1'000'000, ' '),      std::string(1'000'000, 'a'),
                               std::string(999'999, ' ') + "x",  std::string(1'000'000, '\n'),
                               std::string(1'000'000, '!'),      test::repeat(" \n", 500'000),
                               test::repeat("\u3000", 333'333),  test::repeat("中", 333'333),
                               std::string(999'999, '!') + "\n", std::string(1'000'000, '7')};
  for (const auto& text : texts) {
    std::vector<std::size_t> ends;
    EXPECT_LT(test::seconds_of([&] { pretokenizer_.split(text, ends); }), 5.0);
    EXPECT_EQ(ends.back(), text.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Machine, PretokenizerTest, testing::Bool(),
                         [](const auto& machine) { return machine.param ? "Jit" : "Interpreter"; });

}  // namespace
}  // namespace inferno
