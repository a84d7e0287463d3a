#include "kv/sequence_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace inferno {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <typename Act>
std::string error_of(Act&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(KvKind, NamesAreReadAndWritten) {
  for (const KvKind kind : {KvKind::none, KvKind::basic, KvKind::paged}) {
    EXPECT_EQ(parse_kv_kind(kv_kind_name(kind)), kind);
  }
  for (const char* name : {"", "page", "Paged", "paged "}) {
    EXPECT_THROW(parse_kv_kind(name), UsageError);
    EXPECT_THAT(error_of([&] { parse_kv_kind(name); }), HasSubstr("none, basic or paged"));
  }
}

TEST(SequenceCache, PagedGrowsByBlocks) {
  BlockPool pool(6);
  SequenceCache cache(pool, KvKind::paged, 16, 100);
  EXPECT_THAT(cache.blocks(), IsEmpty());
  EXPECT_TRUE(cache.extend(0));
  EXPECT_EQ(pool.used(), 0U);
  EXPECT_TRUE(cache.extend(1));
  EXPECT_THAT(cache.blocks(), ElementsAre(0));
  EXPECT_TRUE(cache.extend(16));
  EXPECT_EQ(pool.used(), 1U);
  EXPECT_TRUE(cache.extend(17));
  EXPECT_THAT(cache.blocks(), ElementsAre(0, 1));
  EXPECT_TRUE(cache.extend(3)) << "reaching less than before is no shrinking";
  EXPECT_EQ(pool.used(), 2U);
  cache.advance(17);
  EXPECT_EQ(cache.length(), 17U);
}

TEST(SequenceCache, PagedTakesAllOrNothing) {
  BlockPool pool(3);
  SequenceCache cache(pool, KvKind::paged, 16, 1000);
  EXPECT_TRUE(cache.extend(16));
  EXPECT_FALSE(cache.extend(65));
  EXPECT_EQ(pool.used(), 1U);
  EXPECT_THAT(cache.blocks(), ElementsAre(0));
  EXPECT_TRUE(cache.extend(48));
  EXPECT_FALSE(cache.extend(49));
  EXPECT_EQ(pool.available(), 0U);
}

TEST(SequenceCache, BasicTakesARunAtOnce) {
  BlockPool pool(10);
  pool.take(3);
  pool.release(0);
  pool.release(1);
  SequenceCache cache(pool, KvKind::basic, 16, 40);
  EXPECT_THAT(cache.blocks(), ElementsAre(3, 4, 5));
  EXPECT_TRUE(cache.extend(40));
  cache.advance(40);
  cache.truncate(2);
  EXPECT_EQ(cache.length(), 2U);
  EXPECT_EQ(cache.blocks().size(), 3U) << "basic keeps its run";
  std::optional<BlockCopy> copy;
  EXPECT_THROW(cache.fork(copy), UsageError);
}

TEST(SequenceCache, NoneKeepsNothing) {
  BlockPool pool(5);
  pool.take(1);
  SequenceCache cache(pool, KvKind::none, 16, 33);
  EXPECT_THAT(cache.blocks(), ElementsAre(1, 2, 3));
  cache.advance(20);
  EXPECT_EQ(cache.length(), 0U);
  cache.truncate(10);
  EXPECT_TRUE(cache.extend(33));
  EXPECT_THROW(cache.extend(34), UsageError);
}

TEST(SequenceCache, TooFewBlocksNameTheNumbers) {
  BlockPool pool(7);
  for (const KvKind kind : {KvKind::none, KvKind::basic}) {
    const std::string error = error_of([&] { const SequenceCache cache(pool, kind, 16, 113); });
    EXPECT_THAT(error, HasSubstr("7 of 7"));
    EXPECT_THAT(error, HasSubstr("8 blocks"));
    EXPECT_EQ(pool.used(), 0U);
  }
  pool.take(4);
  pool.release(0);
  EXPECT_THAT(error_of([&] { const SequenceCache cache(pool, KvKind::basic, 16, 64); }),
              HasSubstr("one run"));
  EXPECT_EQ(pool.available(), 4U);
  const SequenceCache scattered(pool, KvKind::none, 16, 64);
  EXPECT_THAT(scattered.blocks(), ElementsAre(0, 4, 5, 6));
}

TEST(SequenceCache, NonsenseIsRefused) {
  BlockPool pool(4);
  EXPECT_THROW(SequenceCache(pool, KvKind::paged, 0, 10), UsageError);
  EXPECT_THROW(SequenceCache(pool, KvKind::paged, 16, 0), UsageError);
  SequenceCache cache(pool, KvKind::paged, 16, 40);
  EXPECT_THROW(cache.extend(41), UsageError);
  EXPECT_THROW(cache.extend(0xFFFF'FFFF), UsageError);
  EXPECT_THROW(cache.advance(1), UsageError) << "before extend";
  ASSERT_TRUE(cache.extend(40));
  EXPECT_THROW(cache.advance(41), UsageError) << "the table reaches 48, the context does not";
  cache.advance(40);
  EXPECT_THROW(cache.advance(39), UsageError) << "backwards";
  cache.truncate(30);
  EXPECT_THROW(cache.truncate(31), UsageError);
}

TEST(SequenceCache, LargestContextDoesNotOverflow) {
  BlockPool pool(2);
  const std::string error =
      error_of([&] { const SequenceCache cache(pool, KvKind::basic, 16, 0xFFFF'FFFF); });
  EXPECT_THAT(error, HasSubstr("268435456 blocks"));
  SequenceCache paged(pool, KvKind::paged, 16, 0xFFFF'FFFF);
  EXPECT_FALSE(paged.extend(0xFFFF'FFFF));
}

TEST(SequenceCache, BlocksGoBackWithTheSequence) {
  BlockPool pool(8);
  {
    SequenceCache cache(pool, KvKind::paged, 16, 100);
    ASSERT_TRUE(cache.extend(50));
    const SequenceCache basic(pool, KvKind::basic, 16, 30);
    EXPECT_EQ(pool.used(), 6U);
  }
  EXPECT_EQ(pool.used(), 0U);
}

TEST(SequenceCache, MovingMovesTheBlocks) {
  BlockPool pool(8);
  SequenceCache first(pool, KvKind::paged, 16, 100);
  ASSERT_TRUE(first.extend(40));
  first.advance(33);
  SequenceCache second = std::move(first);
  EXPECT_EQ(second.length(), 33U);
  EXPECT_THAT(second.blocks(), ElementsAre(0, 1, 2));
  SequenceCache third(pool, KvKind::paged, 16, 100);
  ASSERT_TRUE(third.extend(10));
  third = std::move(second);
  EXPECT_THAT(third.blocks(), ElementsAre(0, 1, 2));
  EXPECT_EQ(pool.used(), 3U) << "what it had before went back";
  EXPECT_EQ(pool.holders(3), 0U);
}

TEST(SequenceCache, TruncateGivesBackWhatIsNotNeeded) {
  BlockPool pool(8);
  SequenceCache cache(pool, KvKind::paged, 16, 128);
  ASSERT_TRUE(cache.extend(128));
  cache.advance(100);
  cache.truncate(100);
  EXPECT_EQ(pool.used(), 7U) << "blocks taken ahead go back, too";
  cache.truncate(33);
  EXPECT_THAT(cache.blocks(), ElementsAre(0, 1, 2));
  cache.truncate(32);
  EXPECT_THAT(cache.blocks(), ElementsAre(0, 1));
  cache.truncate(0);
  EXPECT_EQ(pool.used(), 0U);
  EXPECT_EQ(cache.length(), 0U);
  EXPECT_TRUE(cache.extend(5));
}

TEST(SequenceCache, ForksShareFullBlocks) {
  BlockPool pool(8);
  SequenceCache parent(pool, KvKind::paged, 16, 128);
  ASSERT_TRUE(parent.extend(60));
  parent.advance(40);
  std::optional<BlockCopy> copy;
  std::optional<SequenceCache> child = parent.fork(copy);
  ASSERT_TRUE(child.has_value());
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->source, 2U);
  EXPECT_EQ(copy->target, 4U);
  EXPECT_EQ(child->length(), 40U);
  EXPECT_THAT(child->blocks(), ElementsAre(0, 1, 4)) << "the block taken ahead is the parent's alone";
  EXPECT_EQ(pool.holders(0), 2U);
  EXPECT_EQ(pool.holders(2), 1U);
  EXPECT_EQ(pool.used(), 5U);
  EXPECT_TRUE(parent.extend(61));
  EXPECT_TRUE(child->extend(61));
  EXPECT_THAT(child->blocks(), ElementsAre(0, 1, 4, 5));
  child.reset();
  EXPECT_EQ(pool.holders(0), 1U);
  EXPECT_EQ(pool.used(), 4U);
}

TEST(SequenceCache, ForksAtABlocksEndNeedNoCopy) {
  BlockPool pool(3);
  SequenceCache parent(pool, KvKind::paged, 16, 64);
  std::optional<BlockCopy> copy = BlockCopy{7, 7};
  const std::optional<SequenceCache> empty = parent.fork(copy);
  ASSERT_TRUE(empty.has_value());
  EXPECT_FALSE(copy.has_value());
  ASSERT_TRUE(parent.extend(32));
  parent.advance(32);
  std::optional<SequenceCache> child = parent.fork(copy);
  ASSERT_TRUE(child.has_value());
  EXPECT_FALSE(copy.has_value());
  EXPECT_EQ(child->blocks(), parent.blocks());
  EXPECT_EQ(pool.used(), 2U);
  EXPECT_TRUE(child->extend(33));
  EXPECT_FALSE(parent.extend(33)) << "the last block is taken";
}

TEST(SequenceCache, ForksWithoutRoomTakeNothing) {
  BlockPool pool(2);
  SequenceCache parent(pool, KvKind::paged, 16, 64);
  ASSERT_TRUE(parent.extend(20));
  parent.advance(20);
  std::optional<BlockCopy> copy;
  EXPECT_FALSE(parent.fork(copy).has_value());
  EXPECT_FALSE(copy.has_value());
  EXPECT_EQ(pool.holders(0), 1U);
  EXPECT_EQ(pool.used(), 2U);
}

// Truncated into a block that a sibling holds: writing there would write into the sibling.
TEST(SequenceCache, SharedBlocksAreReplacedBeforeWriting) {
  BlockPool pool(4);
  SequenceCache parent(pool, KvKind::paged, 16, 64);
  ASSERT_TRUE(parent.extend(32));
  parent.advance(32);
  std::optional<BlockCopy> copy;
  std::optional<SequenceCache> child = parent.fork(copy);
  ASSERT_TRUE(child.has_value());
  child->truncate(20);
  EXPECT_EQ(pool.holders(1), 2U);
  EXPECT_THROW(child->extend(21), UsageError) << "a copy is needed and nobody takes it";
  EXPECT_TRUE(child->extend(20)) << "nothing is to be written";
  ASSERT_TRUE(child->extend(40, copy));
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->source, 1U);
  EXPECT_EQ(copy->target, 2U);
  EXPECT_THAT(child->blocks(), ElementsAre(0, 2, 3));
  EXPECT_EQ(pool.holders(1), 1U);
  EXPECT_TRUE(child->extend(48, copy));
  EXPECT_FALSE(copy.has_value()) << "once is enough";

  parent.truncate(10);
  EXPECT_FALSE(parent.extend(40, copy)) << "two blocks more and a copy: only one is free";
  EXPECT_THAT(parent.blocks(), ElementsAre(0));
  EXPECT_FALSE(copy.has_value());
  child.reset();
  EXPECT_EQ(pool.used(), 1U);
  EXPECT_TRUE(parent.extend(40, copy));
  EXPECT_FALSE(copy.has_value()) << "nobody shares any more";
}

TEST(SequenceCache, TheLastOfManyForksFrees) {
  BlockPool pool(16);
  std::vector<SequenceCache> family;
  family.emplace_back(pool, KvKind::paged, 16, 64);
  ASSERT_TRUE(family[0].extend(40));
  family[0].advance(40);
  for (int i = 0; i < 10; ++i) {
    std::optional<BlockCopy> copy;
    auto child = family[static_cast<std::size_t>(i)].fork(copy);
    ASSERT_TRUE(child.has_value());
    family.push_back(std::move(*child));
  }
  EXPECT_EQ(pool.holders(0), 11U);
  EXPECT_EQ(pool.used(), 2U + 11U);
  while (family.size() > 1) family.erase(family.begin());
  EXPECT_EQ(pool.used(), 3U);
  family.clear();
  EXPECT_EQ(pool.used(), 0U);
}

}  // namespace
}  // namespace inferno
