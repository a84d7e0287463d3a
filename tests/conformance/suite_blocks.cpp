// Cache blocks: copied, shared by forks, exported and imported.

#include <algorithm>

#include "conformance/conformance.hpp"
#include "kv/sequence_cache.hpp"

namespace inferno::conformance {
namespace {

constexpr std::uint32_t kMost = 0xFFFF'FFFF;

// Goes on from a filled cache.
Ids decode(Executor& executor, std::int32_t id, std::uint32_t position, const Blocks& blocks,
           std::size_t count) {
  Ids ids;
  for (std::uint32_t i = 0; i < count; ++i) {
    StepBatch batch;
    batch.add_row({TokenInput::of(ids.empty() ? id : ids.back())}, position + i, blocks);
    batch.add_output(OutputKind::token);
    ids.push_back(executor.wait(executor.submit(batch)).ids[0].at(0));
  }
  return ids;
}

}  // namespace

TEST_P(Conformance, CopiedBlocksHoldTheSame) {
  const Ids ids = prompt(250, 41);
  const Transcript expected = generate(executor(), ids, 5);
  feed(executor(), slice(ids, 0, 40), 0, {10, 11, 12});
  feed(executor(), prompt(251, 48), 0, {20, 21, 22});  // what is overwritten
  executor().copy_blocks(std::vector<BlockCopy>{{10, 22}, {11, 20}, {12, 21}});
  EXPECT_EQ(decode(executor(), ids[40], 40, {22, 20, 21}, 5), expected.ids);
  EXPECT_EQ(decode(executor(), ids[40], 40, {10, 11, 12}, 5), expected.ids) << "the source is untouched";
  EXPECT_EQ(decode(executor(), ids[40], 40, {10, 20, 12}, 5), expected.ids);
}

TEST_P(Conformance, CopiesHappenOneAfterTheOther) {
  const Ids ids = prompt(252, 33);
  const Transcript expected = generate(executor(), ids, 3);
  feed(executor(), slice(ids, 0, 32), 0, {10, 11});
  // Along a chain, then a swap through a third block, then onto itself.
  executor().copy_blocks(std::vector<BlockCopy>{{10, 20}, {20, 30}, {11, 31}});
  executor().copy_blocks(std::vector<BlockCopy>{{30, 40}, {31, 30}, {40, 31}, {30, 30}});
  EXPECT_EQ(decode(executor(), ids[32], 32, {31, 30, 50}, 3), expected.ids);
  executor().copy_blocks({});
}

TEST_P(Conformance, CopiesComeAfterWhatWasSubmitted) {
  const Ids ids = prompt(253, 17);
  const Transcript expected = generate(executor(), ids, 3);
  StepBatch batch;
  batch.add_row(inputs(slice(ids, 0, 16)), 0, {10});
  const Ticket filled = executor().submit(batch);
  executor().copy_blocks(std::vector<BlockCopy>{{10, 20}});
  StepBatch other;
  other.add_row(inputs(prompt(254, 16)), 0, {10});
  const Ticket overwritten = executor().submit(other);
  EXPECT_EQ(decode(executor(), ids[16], 16, {20, 21}, 3), expected.ids);
  executor().wait(filled);
  executor().wait(overwritten);
}

TEST_P(Conformance, CopiesOutOfRangeAreRefused) {
  const std::uint32_t end = executor().limits().blocks;
  const std::uint32_t watched = end - 3;
  expect_refused([&] { executor().copy_blocks(std::vector<BlockCopy>{{0, watched}, {0, end}}); }, "target");
  expect_refused([&] { executor().copy_blocks(std::vector<BlockCopy>{{0, watched}, {end, 0}}); }, "source");
  expect_refused([&] { executor().copy_blocks(std::vector<BlockCopy>{{kMost, kMost}}); }, "source");
}

TEST_P(Conformance, ForksGoTheirOwnWays) {
  BlockPool pool(executor().limits().blocks);
  SequenceCache parent(pool, KvKind::paged, executor().limits().block_size, 200);
  const Ids ids = prompt(255, 37);
  const Transcript expected = generate(executor(), joined(ids, {1}), 12, {.blocks = block_run(100, 4)});
  const Transcript other = generate(executor(), joined(ids, {2}), 12, {.blocks = block_run(100, 4)});
  ASSERT_TRUE(parent.extend(37));
  feed(executor(), ids, 0, parent.blocks());
  parent.advance(37);
  std::optional<BlockCopy> copy;
  std::optional<SequenceCache> child = parent.fork(copy);
  ASSERT_TRUE(child && copy);
  executor().copy_blocks({&*copy, 1});
  ASSERT_TRUE(parent.extend(50) && child->extend(50));
  EXPECT_EQ(decode(executor(), 1, 37, parent.blocks(), 12), expected.ids);
  EXPECT_EQ(decode(executor(), 2, 37, child->blocks(), 12), other.ids);

  // Truncated into a shared block: it must be copied before it is written.
  parent.advance(49);
  child->advance(49);
  child->truncate(20);
  ASSERT_TRUE(child->extend(40, copy));
  ASSERT_TRUE(copy);
  executor().copy_blocks({&*copy, 1});
  const Ids branch = joined(slice(ids, 0, 20), {3});
  EXPECT_EQ(decode(executor(), 3, 20, child->blocks(), 4),
            generate(executor(), branch, 4, {.blocks = block_run(100, 2)}).ids);
  parent.truncate(37);
  ASSERT_TRUE(parent.extend(50));
  EXPECT_EQ(decode(executor(), 1, 37, parent.blocks(), 12), expected.ids)
      << "the sibling's writing was not seen";
}

TEST_P(Conformance, TruncatedSequencesGoOn) {
  const Ids ids = prompt(256, 30);
  const Transcript expected = generate(executor(), joined(slice(ids, 0, 19), {5}), 6);
  generate(executor(), ids, 10, {.blocks = block_run(10, 3)});
  EXPECT_EQ(decode(executor(), 5, 19, block_run(10, 3), 6), expected.ids);
}

TEST_P(Conformance, ExportedBlocksGoOnElsewhere) {
  INFERNO_NEEDS(block_transfer, "block transfer");
  const Ids ids = prompt(257, 41);
  const Transcript expected = generate(executor(), ids, 6);
  feed(executor(), slice(ids, 0, 40), 0, {10, 3, 12});
  const std::vector<std::byte> bytes = executor().export_blocks(Blocks{10, 3, 12});
  EXPECT_EQ(executor().export_blocks(Blocks{10, 3, 12}), bytes);

  Limits limits = roomy();
  limits.blocks = 40;
  limits.max_context = 100;
  limits.max_rows = 2;
  const auto other = make(limits);
  other->import_blocks(Blocks{7, 39, 0}, bytes);
  EXPECT_EQ(other->export_blocks(Blocks{7, 39, 0}), bytes);
  EXPECT_EQ(decode(*other, ids[40], 40, {7, 39, 0}, 6), expected.ids);

  executor().import_blocks(Blocks{60, 61, 62}, bytes);
  EXPECT_EQ(decode(executor(), ids[40], 40, {60, 61, 62}, 6), expected.ids);
  const std::vector<std::byte> nothing = executor().export_blocks({});
  executor().import_blocks({}, nothing);
}

TEST_P(Conformance, TransfersComeAfterWhatWasSubmitted) {
  INFERNO_NEEDS(block_transfer, "block transfer");
  const Ids ids = prompt(258, 16);
  feed(executor(), ids, 0, {10});
  const std::vector<std::byte> expected = executor().export_blocks(Blocks{10});
  StepBatch batch;
  batch.add_row(inputs(ids), 0, {20});
  const Ticket first = executor().submit(batch);
  EXPECT_EQ(executor().export_blocks(Blocks{20}), expected);
  StepBatch other;
  other.add_row(inputs(prompt(259, 16)), 0, {20});
  const Ticket second = executor().submit(other);
  executor().import_blocks(Blocks{20}, expected);
  EXPECT_EQ(executor().export_blocks(Blocks{20}), expected) << "the import came last";
  executor().wait(first);
  executor().wait(second);
}

TEST_P(Conformance, TransfersThatDoNotFitAreRefused) {
  INFERNO_NEEDS(block_transfer, "block transfer");
  const std::uint32_t end = executor().limits().blocks;
  const Blocks watched = {end - 3, end - 2};
  feed(executor(), prompt(260, 32), 0, {10, 11});
  const std::vector<std::byte> bytes = executor().export_blocks(Blocks{10, 11});
  const auto refused = [&](const Blocks& blocks, const std::vector<std::byte>& hostile,
                           const std::string& needle) {
    expect_refused([&] { executor().import_blocks(blocks, hostile); }, needle);
  };
  refused({watched[0]}, bytes, "count");
  refused({watched[0], watched[1], 0}, bytes, "count");
  refused({}, bytes, "count");
  refused({watched[0], end}, bytes, "blocks[1]");
  refused({kMost, watched[0]}, bytes, "blocks[0]");
  refused(watched, {}, "refused");

  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  refused(watched, longer, "length");
  std::vector<std::byte> shorter = bytes;
  shorter.pop_back();
  refused(watched, shorter, "length");
  EXPECT_THROW(executor().export_blocks(Blocks{10, end}), UsageError);

  Limits limits = roomy();
  limits.block_size = 64;
  limits.blocks = 8;
  const auto other = make(limits);
  try {
    other->import_blocks(Blocks{0, 1}, bytes);
    ADD_FAILURE() << "blocks of another size were taken";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("block_size"), std::string::npos) << error.what();
  }
}

// Every header byte changed in every bit, every length: an error or an import, never a crash.
TEST_P(Conformance, HostileTransfersDoNoHarm) {
  INFERNO_NEEDS(block_transfer, "block transfer");
  const Ids ids = prompt(261, 17);
  const Transcript expected = generate(executor(), ids, 3);
  feed(executor(), slice(ids, 0, 16), 0, {10});
  const std::vector<std::byte> bytes = executor().export_blocks(Blocks{10});
  std::size_t refused = 0;
  const auto offer = [&](const std::vector<std::byte>& hostile) {
    try {
      executor().import_blocks(Blocks{20}, hostile);
    } catch (const UsageError&) {
      ++refused;
    }
  };
  const std::size_t header = std::min<std::size_t>(bytes.size(), 64);
  for (std::size_t i = 0; i < header; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> changed = bytes;
      changed[i] ^= std::byte{1} << bit;
      offer(changed);
    }
  }
  EXPECT_GE(refused, 100U) << "the header is not looked at";
  for (std::size_t length = 0; length < header; ++length) {
    offer({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)});
  }
  offer(std::vector<std::byte>(bytes.size(), std::byte{0}));
  offer(std::vector<std::byte>(bytes.size(), std::byte{0xFF}));
  executor().import_blocks(Blocks{20}, bytes);
  EXPECT_EQ(decode(executor(), ids[16], 16, {20, 21}, 3), expected.ids);
}

}  // namespace inferno::conformance
