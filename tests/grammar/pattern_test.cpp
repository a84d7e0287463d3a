// Patterns against the standard library's engine, and what that one does not know.

#include <gtest/gtest.h>
#include <regex>
#include <string>
#include <string_view>

#include "grammar/fixture.hpp"
#include "grammar/json_document.hpp"
#include "grammar/pattern_dfa.hpp"

namespace inferno {
namespace {

using grammar::PatternDfa;
using test::Dice;

bool matches(std::string_view pattern, std::string_view text,
             PatternDfa::Match match = PatternDfa::Match::part) {
  grammar::Budget budget;
  return PatternDfa(grammar::parse_pattern(pattern), match, budget).matches(grammar::code_points(text));
}

std::string random_pattern(Dice& dice, int depth) {
  static constexpr std::string_view kAtoms[] = {"a",   "b",   "c",        ".", "[ab]", "[^a]",
                                                "\\d", "\\w", "[a-c1-3]", "1", "^",    "$"};
  std::string out;
  for (auto count = 1 + dice(3); count > 0; --count) {
    std::string item;
    bool repeats = true;
    if (depth < 3 && dice(3) == 0) {
      item = "(" + random_pattern(dice, depth + 1) + ")";
    } else {
      const auto atom = kAtoms[dice(12)];
      item = atom;
      repeats = atom != "^" && atom != "$";
    }
    static constexpr std::string_view kQuantifiers[] = {"*", "+", "?", "{2}", "{1,2}", "{0,1}", "{2,}"};
    if (repeats && dice(3) == 0) item += kQuantifiers[dice(7)];
    out += item;
  }
  if (dice(4) == 0) {
    out += "|";
    out += random_pattern(dice, depth + 1);
  }
  return out;
}

TEST(Pattern, EqualsTheStandardLibrary) {
  Dice dice(7);
  int compared = 0;
  for (int i = 0; i < 1500; ++i) {
    const auto pattern = random_pattern(dice, 0);
    const std::regex expected(pattern, std::regex::ECMAScript);
    for (int j = 0; j < 12; ++j) {
      std::string text;
      for (auto count = dice(6); count > 0; --count) text += "abc1x"[dice(5)];
      for (const auto match : {PatternDfa::Match::part, PatternDfa::Match::whole}) {
        const bool found = match == PatternDfa::Match::part ? std::regex_search(text, expected)
                                                            : std::regex_match(text, expected);
        bool here = false;
        try {
          here = matches(pattern, text, match);
        } catch (const grammar::PatternError&) {
          // That no text matches is an error of its own.
        }
        ASSERT_EQ(here, found) << pattern << " on " << text
                               << (match == PatternDfa::Match::part ? "" : " (whole)");
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 30'000);
}

TEST(Pattern, Unicode) {
  EXPECT_TRUE(matches("^.$", "\xF0\x9D\x84\x9E"));
  EXPECT_FALSE(matches("^.$", "\xE2\x80\xA8"));  // a line separator
  EXPECT_TRUE(matches("^[\\u{1D11E}]$", "\xF0\x9D\x84\x9E"));
  EXPECT_TRUE(matches("^\\ud834\\udd1e$", "\xF0\x9D\x84\x9E"));
  EXPECT_TRUE(matches("^\\s$", "\xC2\xA0"));
  EXPECT_FALSE(matches("^\\w$", "\xC3\xA9"));
  EXPECT_TRUE(matches("^[\xC3\xA9-\xC3\xAB]$", "\xC3\xAA"));
  EXPECT_TRUE(matches("^(?<name>a)(?:b)$", "ab"));
  EXPECT_TRUE(matches("^[\\b\\t\\cA\\x41\\0]+$", std::string_view("\b\t\x01\x41\0", 5)));
}

TEST(Pattern, Lengths) {
  grammar::Budget budget;
  PatternDfa dfa(grammar::parse_pattern("^(aaa)*(bb)?$"), PatternDfa::Match::part, budget);
  dfa.bound_lengths(4, 7, budget);
  for (const auto* text : {"aaabb", "aaaaaa"}) EXPECT_TRUE(dfa.matches(grammar::code_points(text))) << text;
  for (const auto* text : {"", "aaa", "bb", "aaaaaabb"})
    EXPECT_FALSE(dfa.matches(grammar::code_points(text))) << text;
  EXPECT_TRUE(dfa.can_end_within(dfa.start(), 0));
  EXPECT_FALSE(dfa.can_end_within(dfa.start(), 8));
}

TEST(Pattern, OtherLanguagesAnchors) {
  EXPECT_TRUE(matches(R"(\Aab\Z)", "ab"));
  EXPECT_TRUE(matches(R"(\Aab\z)", "ab"));
  for (const char* const text : {"xab", "abx", "a"}) {
    EXPECT_FALSE(matches(R"(\Aab\Z)", text)) << text;
    EXPECT_FALSE(matches(R"(\Aab\z)", text)) << text;
  }
  EXPECT_TRUE(matches(R"(\Aab)", "abx"));
  EXPECT_THROW(grammar::parse_pattern(R"(\A+)"), grammar::PatternError);
  EXPECT_THROW(grammar::parse_pattern(R"([\A])"), grammar::PatternError);
}

}  // namespace
}  // namespace inferno
