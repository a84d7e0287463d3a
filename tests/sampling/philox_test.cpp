#include "sampling/philox.hpp"

#include <array>
#include <gtest/gtest.h>

namespace inferno::sampling {
namespace {

std::array<uint, 4> words(Words4 w) {
  return {w.a, w.b, w.c, w.d};
}

// The known answers that the authors publish for philox4x32 with 10 rounds.
TEST(Philox, MatchesThePublishedAnswers) {
  EXPECT_EQ(words(philox({0, 0, 0, 0}, 0, 0)),
            (std::array<uint, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  const uint ones = 0xffffffffU;
  EXPECT_EQ(words(philox({ones, ones, ones, ones}, ones, ones)),
            (std::array<uint, 4>{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(words(philox({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, 0xa4093822U, 0x299f31d0U)),
            (std::array<uint, 4>{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

}  // namespace
}  // namespace inferno::sampling
