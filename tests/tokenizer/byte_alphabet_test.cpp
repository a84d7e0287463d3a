#include "tokenizer/byte_alphabet.hpp"

#include <gtest/gtest.h>
#include <set>
#include <string>

namespace inferno {
namespace {

TEST(ByteAlphabet, SpellsEveryByteDifferentlyAndBack) {
  std::set<std::string_view> seen;
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    const auto spelled = alphabet_character(static_cast<std::uint8_t>(byte));
    EXPECT_TRUE(seen.insert(spelled).second) << byte;
    EXPECT_EQ(from_alphabet(spelled), std::string(1, static_cast<char>(byte)));
    all.push_back(static_cast<char>(byte));
  }
  EXPECT_EQ(from_alphabet(to_alphabet(all)), all);
}

TEST(ByteAlphabet, IsTheOneOfGpt2) {
  EXPECT_EQ(alphabet_character(' '), "Ġ");
  EXPECT_EQ(alphabet_character('\n'), "Ċ");
  EXPECT_EQ(alphabet_character('\t'), "ĉ");
  EXPECT_EQ(alphabet_character(0), "Ā");
  EXPECT_EQ(alphabet_character('!'), "!");
  EXPECT_EQ(alphabet_character(0x7F), "ġ");
  EXPECT_EQ(alphabet_character(0xA0), "ł");
  EXPECT_EQ(alphabet_character(0xAD), "Ń");
  EXPECT_EQ(alphabet_character(0xFF), "ÿ");
}

TEST(ByteAlphabet, OtherCharactersAreNotSpelling) {
  EXPECT_FALSE(from_alphabet("a b"));  // a blank is spelled Ġ
  EXPECT_FALSE(from_alphabet("日"));
  EXPECT_FALSE(from_alphabet("\xFF"));
  EXPECT_FALSE(from_alphabet("\xC4"));
  EXPECT_EQ(from_alphabet(""), "");
}

}  // namespace
}  // namespace inferno
