#include "chat/jinja/unicode.hpp"

#include <gtest/gtest.h>
#include <string>

namespace inferno::jinja {
namespace {

std::string cased(const std::string& text, Case to) {
  return in_case(Text(text, true), to).bytes();
}

TEST(Unicode, CasesAreThoseOfPython) {
  EXPECT_EQ(cased("straße ŉ ﬁ \u0390 և", Case::upper), "STRASSE ʼN FI \u0399\u0308\u0301 ԵՒ");
  EXPECT_EQ(cased("ǆ ß ᾳ", Case::title), "ǅ Ss ᾼ");
  EXPECT_EQ(cased("ΑΣ ΑΣΑ Σ ΑΣ.", Case::lower), "ας ασα σ ας.");
  EXPECT_EQ(cased("İI", Case::lower), "i̇i");
  EXPECT_EQ(cased("Straße ſ Σς", Case::fold), "strasse s σσ");
  EXPECT_EQ(titled(Text("they're bill's ǆx 3rd", true)).bytes(), "They'Re Bill'S ǅx 3Rd");
  EXPECT_EQ(capitalized(Text("ßX ǅ", true)).bytes(), "Ssx ǆ");
  EXPECT_EQ(case_swapped(Text("aBß1", true)).bytes(), "AbSS1");
}

TEST(Unicode, Classes) {
  EXPECT_TRUE(is_space(0x3000) && is_space(0x1C) && is_space(0x85) && !is_space(0x200B) && !is_space(0xFEFF));
  EXPECT_TRUE(is_digit(U'²') && !is_decimal(U'²') && is_numeric(U'½') && !is_digit(U'½') && is_decimal(U'٣'));
  EXPECT_TRUE(is_alpha(U'中') && is_alpha(U'ª') && !is_alpha(U'1') && is_word(U'_') && !is_word(U'-'));
  EXPECT_TRUE(is_printable(U'é') && !is_printable(0xA0) && !is_printable(0xAD) && !is_printable(0xE000));
}

TEST(Unicode, OffsetsCountCharacters) {
  const std::string text = "aé日🙂b";
  EXPECT_EQ(count_code_points(text), 5U);
  EXPECT_EQ(offset_of(text, 3), 6U);
  EXPECT_EQ(offset_of(text, 99), text.size());
  EXPECT_EQ(previous_character(text, text.size() - 1), 6U);
}

}  // namespace
}  // namespace inferno::jinja
