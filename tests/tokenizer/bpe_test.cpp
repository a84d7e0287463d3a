#include "tokenizer/bpe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/fixtures.hpp"

namespace inferno {
namespace {

using testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

Ids encode(const Bpe& bpe, std::string_view word) {
  Bpe::Scratch scratch;
  Ids ids;
  bpe.encode(word, scratch, ids);
  return ids;
}

/// The definition: again and again merge the leftmost of the pairs with the lowest rank.
std::vector<std::string> merge_by_definition(const Vocabulary& vocabulary, std::string_view word) {
  std::map<std::pair<std::string, std::string>, std::size_t> rank;
  for (const auto& merge : vocabulary.merges) rank.try_emplace(merge, rank.size());
  std::vector<std::string> parts;
  for (const char byte : word) parts.emplace_back(alphabet_character(static_cast<std::uint8_t>(byte)));
  for (;;) {
    std::size_t best = rank.size();
    std::size_t best_at = 0;
    for (std::size_t at = 0; at + 1 < parts.size(); ++at) {
      const auto found = rank.find({parts[at], parts[at + 1]});
      if (found != rank.end() && found->second < best) {
        best = found->second;
        best_at = at;
      }
    }
    if (best == rank.size()) return parts;
    parts[best_at] += parts[best_at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

TEST(Bpe, MergesByRankNotByLength) {
  const auto vocabulary = test::small_vocabulary({{"b", "c"}, {"a", "b"}, {"ab", "c"}, {"a", "bc"}},
                                                 {{"<e>", TokenType::control}});
  const Bpe bpe(vocabulary);
  EXPECT_EQ(encode(bpe, "abc"), Ids{258});  // "bc" first, then "a bc": lowest id of the equal strings
  EXPECT_EQ(encode(bpe, "ab"), Ids{257});
  EXPECT_EQ(encode(bpe, ""), Ids{});
  EXPECT_EQ(encode(bpe, "x"), Ids{'x'});
  EXPECT_EQ(encode(bpe, std::string("\0\xFF", 2)), (Ids{0, 255}));
}

TEST(Bpe, EqualRanksMergeFromTheLeft) {
  const Bpe bpe(test::small_vocabulary({{"a", "a"}}, {{"<e>", TokenType::control}}));
  EXPECT_EQ(encode(bpe, "aaaaa"), (Ids{256, 256, 'a'}));
}

TEST(Bpe, AgreesWithTheDefinition) {
  test::Dice dice(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<std::string, std::string>> merges;
    std::vector<std::string> parts = {"a", "b", "c"};
    std::map<std::string, int> made;
    while (merges.size() < 40) {
      const std::string left = parts[dice(parts.size())];
      const std::string right = parts[dice(parts.size())];
      if (left.size() + right.size() > 12 || !made.try_emplace(left + right, 0).second) continue;
      merges.emplace_back(left, right);
      parts.push_back(left + right);
    }
    for (std::size_t swaps = dice(20); swaps > 0; --swaps) {  // also merges that come before what they need
      std::swap(merges[dice(merges.size())], merges[dice(merges.size())]);
    }
    const auto vocabulary = test::small_vocabulary(merges, {{"<e>", TokenType::control}});
    const Bpe bpe(vocabulary);
    for (int sample = 0; sample < 30; ++sample) {
      std::string word;
      for (std::size_t length = dice(80); length > 0; --length) word.push_back("abcd"[dice(4)]);
      std::vector<std::string> parts_found;
      for (const auto id : encode(bpe, word))
        parts_found.push_back(vocabulary.tokens[static_cast<std::size_t>(id)]);
      ASSERT_EQ(parts_found, merge_by_definition(vocabulary, word)) << word;
    }
  }
}

TEST(Bpe, LongestWordsTakeLinearTime) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::string part = "a"; part.size() < 64; part += part) merges.emplace_back(part, part);
  const Bpe bpe(test::small_vocabulary(merges, {{"<e>", TokenType::control}}));
  const std::string word(1'000'003, 'a');
  Ids ids;
  EXPECT_LT(test::seconds_of([&] { ids = encode(bpe, word); }), 5.0);
  EXPECT_EQ(ids.size(), 1'000'003U / 64 + 2);  // 3 left over: "aa" and "a"
}

TEST(Bpe, TextNeverMergesIntoAControlToken) {
  auto vocabulary = test::small_vocabulary({{"<", "e"}}, {{"<e>", TokenType::control}});
  vocabulary.merges.emplace_back("<e", ">");
  test::CapturedLog log;
  const Bpe bpe(vocabulary);
  EXPECT_EQ(encode(bpe, "<e>"), (Ids{256, '>'}));
  EXPECT_THAT(log.text(), HasSubstr("ignoring 1 of 2 merges: \"<e >\" at rank 1"));
}

TEST(Bpe, UnusableMergesAreIgnoredWithOneWarning) {
  auto vocabulary = test::small_vocabulary({{"a", "b"}}, {{"<e>", TokenType::control}});
  vocabulary.merges.insert(vocabulary.merges.begin(), {{"x", "y"}, {"", "a"}, {"a", ""}, {"nowhere", "a"}});
  vocabulary.merges.emplace_back("a", "b");
  test::CapturedLog log;
  const Bpe bpe(vocabulary);
  EXPECT_EQ(encode(bpe, "xyab"), (Ids{'x', 'y', 256}));
  EXPECT_THAT(log.text(), HasSubstr("ignoring 5 of 6 merges: \"x y\" at rank 0"));
}

TEST(Bpe, ABytesWithoutATokenIsRefusedWhenItComes) {
  auto vocabulary = test::small_vocabulary({}, {{"<e>", TokenType::control}});
  vocabulary.types['q'] = TokenType::unused;
  test::CapturedLog log;
  const Bpe bpe(vocabulary);
  EXPECT_THAT(log.text(), HasSubstr("no token for 1 of the 256 bytes"));
  EXPECT_EQ(encode(bpe, "ab"), (Ids{'a', 'b'}));
  EXPECT_THAT(test::error_of([&] { encode(bpe, "aqb"); }), HasSubstr("byte 0x71"));
}

TEST(MergeTable, FindsWhatWasPutIn) {
  MergeTable table(1000);
  for (std::int32_t i = 0; i < 1000; ++i)
    ASSERT_TRUE(table.insert(i, i * 7, {static_cast<std::uint32_t>(i), i + 1}));
  EXPECT_FALSE(table.insert(3, 21, {9, 9}));
  for (std::int32_t i = 0; i < 1000; ++i) {
    const auto* merge = table.find(i, i * 7);
    ASSERT_NE(merge, nullptr);
    EXPECT_EQ(merge->rank, static_cast<std::uint32_t>(i));
    EXPECT_EQ(merge->result, i + 1);
    EXPECT_EQ(table.find(i, i * 7 + 1), nullptr);
  }
  EXPECT_EQ(MergeTable(0).find(0, 0), nullptr);
}

}  // namespace
}  // namespace inferno
