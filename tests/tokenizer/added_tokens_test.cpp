#include "tokenizer/added_tokens.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tokenizer/fixtures.hpp"

namespace inferno {
namespace {

using Tokens = std::vector<std::pair<std::string, std::int32_t>>;
using Found = std::vector<std::tuple<std::size_t, std::size_t, std::int32_t>>;

Found find(const Tokens& tokens, std::string_view text) {
  Found found;
  for (const auto& match : AddedTokenMatcher(tokens).find(text))
    found.emplace_back(match.begin, match.end, match.id);
  return found;
}

/// What the words say: at each byte, the longest token that starts there, else one byte on.
Found find_by_trying(const Tokens& tokens, std::string_view text) {
  Found found;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t longest = 0;
    std::int32_t id = 0;
    for (const auto& [token, token_id] : tokens) {
      if (token.size() > longest && text.substr(at).starts_with(token)) {
        longest = token.size();
        id = token_id;
      }
    }
    if (longest > 0) found.emplace_back(at, at + longest, id);
    at += std::max<std::size_t>(longest, 1);
  }
  return found;
}

TEST(AddedTokens, LeftmostThenLongest) {
  const Tokens tokens = {{"<a>", 1}, {"<a>b", 2}, {"b", 3}, {"><", 4}, {"<<a>", 5}};
  EXPECT_EQ(find(tokens, "x<a>bb"), (Found{{1, 5, 2}, {5, 6, 3}}));
  EXPECT_EQ(find(tokens, "<<a>"), (Found{{0, 4, 5}}));
  EXPECT_EQ(find(tokens, "<a><a>"), (Found{{0, 3, 1}, {3, 6, 1}}));
  EXPECT_EQ(find(tokens, ""), Found{});
  EXPECT_EQ(find({}, "<a>"), Found{});
}

TEST(AddedTokens, AgreesWithTryingEverything) {
  test::Dice dice(7);
  for (int round = 0; round < 3000; ++round) {
    const auto word = [&](std::size_t longest) {
      std::string made;
      for (std::size_t length = 1 + dice(longest); made.size() < length;) made.push_back("ab<"[dice(3)]);
      return made;
    };
    Tokens tokens;
    std::set<std::string> taken;
    for (std::size_t count = dice(6); count > 0; --count) {
      const std::string token = word(5);
      if (taken.insert(token).second)
        tokens.emplace_back(token, static_cast<std::int32_t>(100 + tokens.size()));
    }
    const std::string text = word(40);
    ASSERT_EQ(find(tokens, text), find_by_trying(tokens, text)) << text;
  }
}

TEST(AddedTokens, LinearEvenForLongTokensOfOneCharacter) {
  const Tokens tokens = {{std::string(20'000, '<') + ">", 1}, {std::string(10'000, '<') + "|", 2}};
  const AddedTokenMatcher matcher(tokens);
  const std::string text(1'000'000, '<');
  EXPECT_LT(test::seconds_of([&] { EXPECT_TRUE(matcher.find(text).empty()); }), 2.0);
}

}  // namespace
}  // namespace inferno
