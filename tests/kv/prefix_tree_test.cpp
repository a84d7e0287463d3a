#include "kv/prefix_tree.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "kv/sequence_cache.hpp"

namespace inferno {
namespace {

using Ids = std::vector<std::int32_t>;
using Blocks = std::vector<std::uint32_t>;
constexpr std::uint32_t kBlockSize = 4;

std::uint64_t collide(std::uint64_t, std::uint64_t, std::span<const std::int32_t>) {
  return 7;
}

Ids counted(std::int32_t first, std::size_t count) {
  Ids ids(count);
  for (auto& id : ids) id = first++;
  return ids;
}

/// A pool, a tree, and what a sequence does with them.
class Cache {
 public:
  explicit Cache(std::uint32_t blocks, PrefixTree::Hash hash = PrefixTree::mix)
      : pool(blocks), tree(pool, kBlockSize, 1, hash), space(tree.hold_namespace("")) {}

  std::size_t found(const Ids& ids) const { return found(space, ids); }
  std::size_t found(PrefixTree::Namespace of, const Ids& ids) const {
    Blocks blocks;
    tree.find(of, ids, blocks);
    return blocks.size();
  }

  /// Runs a sequence: takes what is there, computes the rest, leaves its full blocks. Returns its path,
  /// pinned.
  Blocks run(const Ids& ids) {
    Blocks path;
    tree.find(space, ids, path);
    tree.pin(path);
    SequenceCache cache(pool, KvKind::paged, kBlockSize, 1000);
    cache.adopt(path);
    if (!cache.extend(static_cast<std::uint32_t>(ids.size()))) {
      ADD_FAILURE() << "no blocks";
      return path;
    }
    cache.advance(static_cast<std::uint32_t>(ids.size()));
    while ((path.size() + 1) * kBlockSize <= ids.size()) {
      const auto piece = std::span(ids).subspan(path.size() * kBlockSize, kBlockSize);
      path.push_back(tree.insert(space, path.empty() ? PrefixTree::kNone : path.back(), piece,
                                 cache.blocks()[path.size()]));
    }
    return path;
  }
  void leave(const Ids& ids) { tree.unpin(run(ids)); }

  BlockPool pool;
  PrefixTree tree;
  PrefixTree::Namespace space;
};

TEST(PrefixTree, FindsWhatWasLeftInFullBlocks) {
  Cache cache(8);
  cache.leave(counted(0, 11));
  EXPECT_EQ(cache.pool.used(), 2U);
  EXPECT_EQ(cache.tree.evictable(), 2U);
  EXPECT_EQ(cache.found(counted(0, 11)), 2U);
  EXPECT_EQ(cache.found(counted(0, 7)), 1U);
  EXPECT_EQ(cache.found(counted(0, 3)), 0U);
  EXPECT_EQ(cache.found(counted(1, 8)), 0U);
  Ids changed = counted(0, 8);
  changed[7] = 99;
  EXPECT_EQ(cache.found(changed), 1U);
  changed[0] = 99;
  EXPECT_EQ(cache.found(changed), 0U);
  // A block's tokens count with all that stands before them.
  EXPECT_EQ(cache.found(counted(4, 4)), 0U);
}

TEST(PrefixTree, NamespacesKeepApart) {
  Cache cache(8);
  cache.leave(counted(0, 8));
  const auto other = cache.tree.hold_namespace("other");
  EXPECT_NE(other, cache.space);
  EXPECT_EQ(cache.found(other, counted(0, 8)), 0U);
  EXPECT_EQ(cache.tree.hold_namespace("other"), other);
  cache.tree.release_namespace(other);
  cache.tree.release_namespace(other);
  // The number is free again; the name must not find what is left under it.
  EXPECT_EQ(cache.tree.hold_namespace("third"), other);
}

TEST(PrefixTree, ANamespaceLivesAsLongAsItsBlocks) {
  Cache cache(8);
  cache.leave(counted(0, 8));
  cache.tree.release_namespace(cache.space);
  const auto other = cache.tree.hold_namespace("other");
  EXPECT_EQ(cache.found(other, counted(0, 8)), 0U);
  EXPECT_EQ(cache.found(cache.tree.hold_namespace(""), counted(0, 8)), 2U);
}

TEST(PrefixTree, CollidingHashesGiveNobodyElsesBlocks) {
  Cache cache(16, collide);
  cache.leave(counted(0, 8));
  cache.leave(counted(100, 8));
  cache.leave(counted(200, 12));
  EXPECT_EQ(cache.found(counted(300, 8)), 0U);
  Blocks first;
  Blocks second;
  cache.tree.find(cache.space, counted(0, 8), first);
  cache.tree.find(cache.space, counted(100, 8), second);
  EXPECT_EQ(first.size(), 2U);
  EXPECT_EQ(second.size(), 2U);
  EXPECT_NE(first, second);
  EXPECT_EQ(cache.tree.evict(100), 7U);
  EXPECT_EQ(cache.pool.used(), 0U);
}

TEST(PrefixTree, EvictsTheLeastRecentlyUsedEndsFirst) {
  Cache cache(16);
  cache.leave(counted(0, 12));   // three blocks
  cache.leave(counted(100, 8));  // two
  cache.leave(counted(0, 4));    // the first block of the first again
  EXPECT_EQ(cache.tree.evict(1), 1U);
  EXPECT_EQ(cache.found(counted(0, 12)), 2U);
  EXPECT_EQ(cache.tree.evict(1), 1U);
  EXPECT_EQ(cache.found(counted(0, 12)), 1U);
  EXPECT_EQ(cache.tree.evict(2), 2U);
  EXPECT_EQ(cache.found(counted(100, 8)), 0U);
  EXPECT_EQ(cache.found(counted(0, 12)), 1U);
  EXPECT_EQ(cache.tree.evict(5), 1U);
  EXPECT_EQ(cache.tree.nodes(), 0U);
}

TEST(PrefixTree, NeverEvictsWhatIsPinned) {
  Cache cache(16);
  const auto path = cache.run(counted(0, 8));
  cache.leave(counted(0, 16));
  EXPECT_EQ(cache.tree.evictable(), 2U);
  EXPECT_EQ(cache.tree.evict(10), 2U);
  EXPECT_EQ(cache.found(counted(0, 16)), 2U);
  cache.tree.unpin(path);
  EXPECT_EQ(cache.tree.evict(10), 2U);
  EXPECT_EQ(cache.pool.used(), 0U);
}

TEST(PrefixTree, TheSameBlockComputedTwiceIsKeptOnce) {
  Cache cache(16);
  const auto ids = counted(0, 4);
  const auto mine = cache.pool.take(1).front();
  const auto theirs = cache.pool.take(1).front();
  EXPECT_EQ(cache.tree.insert(cache.space, PrefixTree::kNone, ids, mine), mine);
  EXPECT_EQ(cache.tree.insert(cache.space, PrefixTree::kNone, ids, theirs), mine);
  cache.pool.release(theirs);
  cache.pool.release(mine);
  EXPECT_EQ(cache.pool.used(), 1U);
  cache.tree.unpin({&mine, 1});
  EXPECT_EQ(cache.tree.evictable(), 0U);  // the other pin
  cache.tree.unpin({&mine, 1});
  EXPECT_EQ(cache.tree.evictable(), 1U);
}

TEST(PrefixTree, APromiseIsSeenAndKeptOrTakenBack) {
  Cache cache(16);
  const auto blocks = cache.pool.take(3);
  const auto ids = counted(0, 12);
  const auto piece = [&](std::size_t i) { return std::span(ids).subspan(i * kBlockSize, kBlockSize); };
  EXPECT_TRUE(cache.tree.promise(cache.space, PrefixTree::kNone, piece(0), blocks[0], 5));
  EXPECT_TRUE(cache.tree.promise(cache.space, blocks[0], piece(1), blocks[1], 5));
  EXPECT_TRUE(cache.tree.promise(cache.space, blocks[1], piece(2), blocks[2], 5));
  EXPECT_FALSE(cache.tree.promise(cache.space, PrefixTree::kNone, piece(0), 9, 0));
  Blocks path;
  auto found = cache.tree.find(cache.space, ids, path);
  EXPECT_TRUE(path.empty());
  EXPECT_EQ(found.promised, blocks[0]);
  EXPECT_EQ(cache.tree.rank(found.promised), 5);

  EXPECT_EQ(cache.tree.insert(cache.space, PrefixTree::kNone, piece(0), blocks[0]), blocks[0]);
  found = cache.tree.find(cache.space, ids, path);
  EXPECT_EQ(path, Blocks{blocks[0]});
  EXPECT_EQ(found.promised, blocks[1]);

  cache.tree.withdraw(blocks[1]);
  found = cache.tree.find(cache.space, ids, path);
  EXPECT_EQ(found.promised, PrefixTree::kNone);
  cache.tree.withdraw(blocks[1]);  // gone already
  for (const auto block : blocks) cache.pool.release(block);
  EXPECT_EQ(cache.pool.used(), 1U);
  cache.tree.unpin({blocks.data(), 1});
  EXPECT_EQ(cache.tree.evict(1), 1U);
}

TEST(PrefixTree, WhoeverIsFirstFillsAPromisedBlock) {
  Cache cache(16);
  const auto blocks = cache.pool.take(2);
  const auto ids = counted(0, 8);
  const auto first = std::span(ids).first(kBlockSize);
  cache.tree.promise(cache.space, PrefixTree::kNone, first, blocks[0], 0);
  cache.tree.promise(cache.space, blocks[0], std::span(ids).last(kBlockSize), blocks[1], 0);
  const auto other = cache.pool.take(1).front();
  EXPECT_EQ(cache.tree.insert(cache.space, PrefixTree::kNone, first, other), other);
  EXPECT_EQ(cache.found(ids), 1U);
  Blocks path;
  EXPECT_EQ(cache.tree.find(cache.space, ids, path).promised, PrefixTree::kNone);
  // The one who promised comes later and gets what is there.
  EXPECT_EQ(cache.tree.insert(cache.space, PrefixTree::kNone, first, blocks[0]), other);
}

/// Random sequences of a small alphabet against a map of every prefix that is cached.
class RandomUse : public testing::TestWithParam<bool> {};

TEST_P(RandomUse, AgreesWithAMapOfPrefixes) {
  constexpr std::uint32_t kPool = 24;
  Cache cache(kPool, GetParam() ? collide : PrefixTree::mix);
  std::mt19937 random(5);
  std::map<Ids, std::uint32_t> block_of;  // every prefix that was ever left; some were evicted since
  for (int round = 0; round < 3000; ++round) {
    Ids ids(1 + random() % 20);
    for (auto& id : ids) id = static_cast<std::int32_t>(random() % 2);
    Blocks path;
    const auto found = cache.tree.find(cache.space, ids, path);
    EXPECT_EQ(found.unpinned, path.size());
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Ids prefix(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>((i + 1) * kBlockSize));
      ASSERT_EQ(block_of.at(prefix), path[i]);
    }
    const auto needed = static_cast<std::uint32_t>((ids.size() + kBlockSize - 1) / kBlockSize - path.size());
    if (cache.pool.available() < needed) {
      cache.tree.pin(path);
      const auto missing = needed - cache.pool.available();
      ASSERT_EQ(cache.tree.evict(missing), missing);
      cache.tree.unpin(path);
    }
    path = cache.run(ids);
    for (std::size_t i = 0; i < path.size(); ++i) {
      const Ids prefix(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>((i + 1) * kBlockSize));
      block_of[prefix] = path[i];
    }
    cache.tree.unpin(path);
    ASSERT_EQ(cache.pool.used(), cache.tree.nodes());
    ASSERT_EQ(cache.tree.evictable(), cache.tree.nodes());
  }
  const auto nodes = cache.tree.nodes();
  EXPECT_EQ(cache.tree.evict(kPool), nodes);
  EXPECT_EQ(cache.pool.available(), kPool);
}

INSTANTIATE_TEST_SUITE_P(Hashes, RandomUse, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "colliding" : "mixed"; });

TEST(SequenceCacheAdopt, HoldsWhatItIsGivenAndGrowsBehindIt) {
  BlockPool pool(8);
  const auto given = pool.take(2);
  {
    SequenceCache cache(pool, KvKind::paged, kBlockSize, 20);
    cache.adopt(given);
    EXPECT_EQ(cache.length(), 8U);
    EXPECT_TRUE(cache.extend(9));
    EXPECT_EQ(cache.blocks().size(), 3U);
    cache.advance(9);
    EXPECT_EQ(pool.holders(given[0]), 2U);
    const auto twin = pool.take(1).front();
    cache.replace(1, twin);
    EXPECT_EQ(cache.blocks()[1], twin);
    EXPECT_EQ(pool.holders(given[1]), 1U);
    EXPECT_THROW(cache.replace(2, twin), UsageError);  // not full
    EXPECT_THROW(cache.adopt(given), UsageError);
    pool.release(twin);
  }
  EXPECT_EQ(pool.used(), 2U);
  SequenceCache small(pool, KvKind::paged, kBlockSize, 4);
  EXPECT_THROW(small.adopt(given), UsageError);
  SequenceCache basic(pool, KvKind::basic, kBlockSize, 4);
  EXPECT_THROW(basic.adopt({}), UsageError);
}

}  // namespace
}  // namespace inferno
