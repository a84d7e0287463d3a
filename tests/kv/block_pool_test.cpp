#include "kv/block_pool.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include <inferno/error.hpp>

namespace inferno {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BlockPool, TakesTheLowestFreeIds) {
  BlockPool pool(10);
  EXPECT_EQ(pool.capacity(), 10U);
  EXPECT_THAT(pool.take(3), ElementsAre(0, 1, 2));
  EXPECT_THAT(pool.take(2), ElementsAre(3, 4));
  pool.release(1);
  pool.release(3);
  EXPECT_THAT(pool.take(3), ElementsAre(1, 3, 5));
  EXPECT_EQ(pool.available(), 4U);
  EXPECT_EQ(pool.used(), 6U);
}

TEST(BlockPool, TakesAllOrNothing) {
  BlockPool pool(5);
  EXPECT_THAT(pool.take(6), IsEmpty());
  EXPECT_EQ(pool.available(), 5U);
  EXPECT_THAT(pool.take(5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(pool.available(), 0U);
  EXPECT_THAT(pool.take(1), IsEmpty());
  EXPECT_THAT(pool.take(0), IsEmpty());
  pool.release(4);
  EXPECT_THAT(pool.take(2), IsEmpty());
  EXPECT_THAT(pool.take(1), ElementsAre(4));
}

TEST(BlockPool, SizesAroundAWord) {
  for (const std::uint32_t size : {0U, 1U, 63U, 64U, 65U, 127U, 128U, 129U, 1000U}) {
    BlockPool pool(size);
    EXPECT_EQ(pool.available(), size);
    EXPECT_THAT(pool.take(size + 1), IsEmpty());
    const auto all = pool.take(size);
    ASSERT_EQ(all.size(), size);
    for (std::uint32_t i = 0; i < size; ++i) EXPECT_EQ(all[i], i);
    EXPECT_THAT(pool.take(1), IsEmpty());
    for (const std::uint32_t block : all) pool.release(block);
    EXPECT_EQ(pool.take(size), all);
  }
}

TEST(BlockPool, RunsAreConsecutiveAndLowest) {
  BlockPool pool(12);
  pool.take(12);
  for (const std::uint32_t block : {1U, 3U, 4U, 6U, 7U, 8U, 10U, 11U}) pool.release(block);
  EXPECT_THAT(pool.take_run(4), IsEmpty()) << "enough blocks, but not in one run";
  EXPECT_EQ(pool.available(), 8U);
  EXPECT_THAT(pool.take_run(3), ElementsAre(6, 7, 8));
  EXPECT_THAT(pool.take_run(2), ElementsAre(3, 4));
  EXPECT_THAT(pool.take_run(2), ElementsAre(10, 11));
  EXPECT_THAT(pool.take_run(2), IsEmpty());
  EXPECT_THAT(pool.take_run(1), ElementsAre(1));
  EXPECT_THAT(pool.take_run(0), IsEmpty());
  EXPECT_EQ(pool.available(), 0U);
}

TEST(BlockPool, TheLastHolderFrees) {
  BlockPool pool(3);
  pool.take(2);
  pool.hold(0);
  pool.hold(0);
  EXPECT_EQ(pool.holders(0), 3U);
  EXPECT_EQ(pool.used(), 2U) << "a block counts once, whoever holds it";
  pool.release(0);
  pool.release(0);
  EXPECT_EQ(pool.holders(0), 1U);
  EXPECT_EQ(pool.available(), 1U);
  pool.release(0);
  EXPECT_EQ(pool.holders(0), 0U);
  EXPECT_EQ(pool.available(), 2U);
}

TEST(BlockPool, NobodysBlocksAreErrors) {
  BlockPool pool(3);
  pool.take(1);
  EXPECT_THROW(pool.release(1), Error);
  EXPECT_THROW(pool.hold(1), Error);
  EXPECT_THROW(pool.release(3), Error);
  EXPECT_THROW(pool.hold(0xFFFF'FFFF), Error);
  EXPECT_THROW(pool.holders(3), Error);
  pool.release(0);
  EXPECT_THROW(pool.release(0), Error) << "twice";
  EXPECT_EQ(pool.available(), 3U);
}

// Long random use against a plain model of what the pool promises.
TEST(BlockPool, AccountingStaysExact) {
  constexpr std::uint32_t kBlocks = 200;
  BlockPool pool(kBlocks);
  std::set<std::uint32_t> free;
  for (std::uint32_t i = 0; i < kBlocks; ++i) free.insert(i);
  std::vector<std::uint32_t> held;  // once per holder
  std::uint64_t random = 1;
  const auto next = [&random](std::uint64_t below) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<std::uint32_t>((random >> 33) % below);
  };
  for (int round = 0; round < 20000; ++round) {
    switch (next(4)) {
      case 0: {
        const std::uint32_t count = next(9);
        const auto taken = pool.take(count);
        if (count > free.size()) {
          ASSERT_TRUE(taken.empty());
          break;
        }
        ASSERT_EQ(taken.size(), count);
        for (const std::uint32_t block : taken) {
          ASSERT_EQ(block, *free.begin());
          free.erase(block);
          held.push_back(block);
        }
        break;
      }
      case 1:
        if (!held.empty()) {
          held.push_back(held[next(held.size())]);
          pool.hold(held.back());
        }
        break;
      default:
        if (!held.empty()) {
          std::swap(held[next(held.size())], held.back());
          const std::uint32_t block = held.back();
          held.pop_back();
          pool.release(block);
          if (std::find(held.begin(), held.end(), block) == held.end()) free.insert(block);
        }
    }
    ASSERT_EQ(pool.available(), free.size());
  }
  while (!held.empty()) {
    pool.release(held.back());
    held.pop_back();
  }
  EXPECT_EQ(pool.available(), kBlocks);
}

}  // namespace
}  // namespace inferno
