// Long runs of one character class: exact counts, near-linear time, and no recursion, since everything runs
// on a stack of 256 KiB.

#include <gtest/gtest.h>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tokenizer/fixtures.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/qwen3_fixture.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {
namespace {

class Qwen3LongText : public test::Qwen3Test {};

/// A quarter of a second is usual, sanitizers need ten times as long; a quadratic step would take hours.
constexpr double kSecondsPerMegabyte = 30.0;

TEST_F(Qwen3LongText, CountsOfLongRuns) {
  const std::tuple<std::string, std::size_t, std::size_t> cases[] = {
      {"A", 43'000, 5375},  {" ", 100'000, 782},    {"\n", 20'000, 625},
      {".", 100'000, 1563}, {"中", 30'000, 30'000}, {"!", 1'000'000, 125'000},
  };
  for (const auto& [unit, times, count] : cases) {
    const std::string text = test::repeat(unit, times);
    std::size_t found = 0;
    EXPECT_LT(test::seconds_of([&] { found = tokenizer().encode(text, true).size(); }), kSecondsPerMegabyte)
        << unit;
    EXPECT_EQ(found, count) << times << " times " << unit;
  }
}

TEST_F(Qwen3LongText, AMegabyteOfAnything) {
  test::Dice dice(17);
  std::string letters;
  while (letters.size() < 1'000'000) letters.push_back(static_cast<char>('a' + dice(26)));
  std::string bytes;
  while (bytes.size() < 1'000'000) bytes.push_back(static_cast<char>(dice(256)));
  const std::string texts[] = {
      letters,
      bytes,
      std::string(1'000'000, 'a'),
      std::string(1'000'000, ' '),
      std::string(999'999, ' ') + "x",
      std::string(999'999, ' ') + "\n",
      test::repeat(" \n", 500'000),
      test::repeat("a ", 500'000),
      test::repeat("'s", 500'000),
      std::string(1'000'000, '\n'),
      std::string(1'000'000, '<'),
      test::repeat("<|im_", 200'000),
      test::repeat("<|im_end|", 111'111),
      test::repeat("<|im_end|>", 100'000),
      std::string(1'000'000, '\0'),
      std::string(1'000'000, '\xFF'),
      test::repeat("\xF0\x9F", 500'000),
      std::string(1'000'000, '7'),
      test::repeat("\u0301", 500'000),
      test::repeat("\u0301\u0316", 250'000),
      test::repeat("e\u0301", 333'333),
      test::repeat("각", 333'333),
      test::repeat("👩\u200D", 142'857),
      test::repeat("\u3000", 333'333),
  };
  for (const auto& text : texts) {
    for (const bool trusted : {true, false}) {
      std::vector<TokenId> ids;
      EXPECT_LT(test::seconds_of([&] { ids = tokenizer().encode(text, trusted); }), kSecondsPerMegabyte)
          << testing::PrintToString(text.substr(0, 10));
      if (certainly_nfc(text)) {
        EXPECT_EQ(tokenizer().decode(ids), text);
      }
    }
  }
}

TEST_F(Qwen3LongText, TwiceTheTextTakesAboutTwiceTheTime) {
  test::Dice dice(19);
  std::string letters;
  while (letters.size() < 2'000'000) letters.push_back(static_cast<char>('a' + dice(26)));
  const std::pair<std::string, std::string> pairs[] = {
      {letters.substr(0, 1'000'000), letters},
      {std::string(1'000'000, '!'), std::string(2'000'000, '!')},
      {std::string(1'000'000, ' '), std::string(2'000'000, ' ')},
  };
  for (const auto& [once, twice] : pairs) {
    const double seconds = test::seconds_of([&, &text = once] { tokenizer().encode(text, true); });
    // Room for the noise of a busy machine; a quadratic step would make it four times, or far more.
    EXPECT_LT(test::seconds_of([&, &text = twice] { tokenizer().encode(text, true); }), 3.5 * seconds + 0.2);
  }
}

}  // namespace
}  // namespace inferno
