#include "engine/stop_matcher.hpp"

#include <gtest/gtest.h>

#include <inferno/error.hpp>

namespace inferno {
namespace {

/// Feeds `text` in pieces of `size` bytes; what came out.
std::string through(StopMatcher& matcher, const std::string& text, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += size) out += matcher.push(text.substr(i, size));
  return out + matcher.finish();
}

TEST(StopMatcher, LetsEverythingThroughWithoutStops) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, EndsRightBeforeTheMatchHoweverTheTextIsCut) {
  for (std::size_t size = 1; size < 14; ++size) {
    StopMatcher matcher({"bacta"});
    EXPECT_EQ(through(matcher, "abababactail", size), "ababa") << size;
    EXPECT_TRUE(matcher.matched());
  }
}

TEST(StopMatcher, HoldsBackWhatMayBecomeAStop) {
  StopMatcher matcher({"bacta"});
  EXPECT_EQ(matcher.push("aba"), "a");
  EXPECT_EQ(matcher.push("ba"), "ba");
  EXPECT_EQ(matcher.push("c"), "");
  EXPECT_EQ(matcher.push("x"), "bacx");
}

TEST(StopMatcher, TakesTheFirstOfSeveral) {
  StopMatcher matcher({"dog", "cat", "at"});
  EXPECT_EQ(through(matcher, "the cat and the dog", 3), "the ");
}

TEST(StopMatcher, OfTwoAtOnePlaceEitherEndsTheTextThere) {
  StopMatcher matcher({"abc", "ab"});
  EXPECT_EQ(through(matcher, "xxabc", 5), "xx");
}

TEST(StopMatcher, GivesBackAnUnfinishedStopAtTheEnd) {
  StopMatcher matcher({"END"});
  EXPECT_EQ(matcher.push("the EN"), "the ");
  EXPECT_EQ(matcher.finish(), "EN");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcher, RepeatedBeginnings) {
  StopMatcher matcher({"aaab"});
  EXPECT_EQ(through(matcher, "aaaaaaab", 1), "aaaa");
}

TEST(StopMatcher, SaysNothingAfterAMatch) {
  StopMatcher matcher({"b"});
  EXPECT_EQ(matcher.push("abc"), "a");
  EXPECT_EQ(matcher.push("abc"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, RefusesAnEmptyStop) {
  EXPECT_THROW(StopMatcher({"a", ""}), UsageError);
}

}  // namespace
}  // namespace inferno
