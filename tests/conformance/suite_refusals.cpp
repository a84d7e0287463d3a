// Limits, at and one beyond; malformed submissions; calls out of turn. What is refused changes nothing.

#include <limits>

#include "conformance/conformance.hpp"

namespace inferno::conformance {

namespace {

constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

}  // namespace

class Submissions {
 public:
  // Two rows of 4 and 3 tokens at positions 10 and 0, in blocks of their own, with all that is declared
  // asked.
  static StepBatch valid(const Capabilities& capabilities) {
    StepBatch batch;
    batch.add_row({TokenInput::of(1), TokenInput::of(2), TokenInput::of(3), TokenInput::of(4)}, 10, {20, 21});
    batch.add_output_at(1, OutputKind::token);
    if (capabilities.logits) batch.add_output_at(2, OutputKind::logits);
    if (capabilities.scores) batch.add_output_at(2, OutputKind::score, 5);
    batch.add_row({TokenInput::of(5), TokenInput::of(6), TokenInput::of(7)}, 0, {22});
    batch.add_output(OutputKind::token);
    if (capabilities.hidden) batch.add_output(OutputKind::hidden);
    return batch;
  }
  // Two rows, ready for `max_steps` chained steps that end at position 15.
  static StepBatch chain() {
    StepBatch batch;
    for (std::uint32_t row = 0; row < 2; ++row) {
      batch.add_row({TokenInput::of(1), TokenInput::of(2)}, 11, {20 + row});
      batch.add_output(OutputKind::token);
    }
    return batch;
  }
};

TEST_P(Conformance, MalformedBatchesAreRefused) {
  const auto size = static_cast<std::int32_t>(vocab_size());
  EXPECT_EQ(executor().wait(executor().submit(Submissions::valid(capabilities()))).status[0], RowStatus::ok);
  const auto refused = [&](const std::string& needle, auto&& change) {
    SCOPED_TRACE(needle);
    expect_refused(
        [&] {
          StepBatch batch = Submissions::valid(capabilities());
          change(batch);
          executor().submit(batch);
        },
        needle);
  };
  refused("row_offsets", [](StepBatch& batch) { batch = {}; });
  refused("row_offsets", [](StepBatch& batch) { batch.row_offsets.clear(); });
  refused("row_offsets", [](StepBatch& batch) { batch.row_offsets = {0}; });
  refused("row_offsets[0]", [](StepBatch& batch) { batch.row_offsets = {1, 4, 7}; });
  refused("row_offsets[1]", [](StepBatch& batch) { batch.row_offsets = {0, 0, 7}; });
  refused("row_offsets[2]", [](StepBatch& batch) { batch.row_offsets = {0, 7, 7}; });
  refused("row_offsets[2]", [](StepBatch& batch) { batch.row_offsets = {0, 4, 3}; });
  refused("row_offsets[2]", [](StepBatch& batch) { batch.row_offsets = {0, 4, 8}; });
  refused("row_offsets[2]", [](StepBatch& batch) { batch.row_offsets = {0, 4, 6}; });
  refused("row_offsets[2]", [](StepBatch& batch) { batch.row_offsets = {0, 4, kMost}; });
  refused("row_offsets", [](StepBatch& batch) { batch.row_offsets = {0, kMost, 7}; });
  refused("tokens[2].id", [](StepBatch& batch) { batch.tokens[2].id = -1; });
  refused("tokens[6].id", [&](StepBatch& batch) { batch.tokens[6].id = size; });
  refused("tokens[0].id",
          [](StepBatch& batch) { batch.tokens[0].id = std::numeric_limits<std::int32_t>::min(); });
  refused("positions", [](StepBatch& batch) { batch.positions.pop_back(); });
  refused("positions", [](StepBatch& batch) { batch.positions.push_back(3); });
  refused("positions[2]", [](StepBatch& batch) { batch.positions[2] = 13; });
  refused("positions[3]", [](StepBatch& batch) { batch.positions[3] = 12; });
  refused("positions[5]", [](StepBatch& batch) { batch.positions[5] = kMost; });
  refused("positions[6]", [](StepBatch& batch) { batch.positions = {10, 11, 12, 13, kMost - 1, kMost, 0}; });
  refused("positions[1]", [](StepBatch& batch) { batch.positions = {kMost, 0, 1, 2, 0, 1, 2}; });
  refused("positions[4]",
          [](StepBatch& batch) { batch.positions = {10, 11, 12, 13, kMost - 2, kMost - 1, kMost}; });
  refused("block_offsets", [](StepBatch& batch) { batch.block_offsets.pop_back(); });
  refused("block_offsets", [](StepBatch& batch) { batch.block_offsets.clear(); });
  refused("block_offsets[0]", [](StepBatch& batch) { batch.block_offsets = {1, 2, 3}; });
  refused("block_offsets[2]", [](StepBatch& batch) { batch.block_offsets = {0, 2, 4}; });
  refused("block_offsets[2]", [](StepBatch& batch) { batch.block_offsets = {0, 2, kMost}; });
  refused("block_offsets", [](StepBatch& batch) { batch.block_offsets = {0, 3, 2}; });
  refused("block_offsets[2]", [](StepBatch& batch) { batch.block_offsets = {0, 3, 3}; });
  refused("blocks[1]", [](StepBatch& batch) { batch.blocks[1] = roomy().blocks; });
  refused("blocks[2]", [](StepBatch& batch) { batch.blocks[2] = kMost; });
  refused("block 22", [](StepBatch& batch) { batch.blocks = {22, 21, 22}; });
  refused("block 20", [](StepBatch& batch) { batch.blocks = {20, 21, 20}; });
  refused("slots", [](StepBatch& batch) { batch.slots.pop_back(); });
  refused("slots", [](StepBatch& batch) { batch.slots.push_back(kGreedySlot); });
  refused("slots[1]", [](StepBatch& batch) { batch.slots[1] = roomy().slots; });
  refused("slots[0]", [](StepBatch& batch) { batch.slots[0] = kGreedySlot - 1; });
  refused("outputs[0].token", [](StepBatch& batch) { batch.outputs = {{7, OutputKind::token, -1}}; });
  refused("outputs[0].token", [](StepBatch& batch) { batch.outputs[0].token = kMost; });
  refused("outputs[1].token", [](StepBatch& batch) {
    batch.outputs = {{4, OutputKind::token, -1}, {3, OutputKind::token, -1}};
  });
  refused("outputs[0].kind", [](StepBatch& batch) { batch.outputs[0].kind = static_cast<OutputKind>(4); });
  refused("outputs[0].kind", [](StepBatch& batch) { batch.outputs[0].kind = static_cast<OutputKind>(255); });
  if (capabilities().scores) {
    refused("outputs[0].target", [](StepBatch& batch) { batch.outputs = {{1, OutputKind::score, -1}}; });
    refused("outputs[0].target", [&](StepBatch& batch) { batch.outputs = {{1, OutputKind::score, size}}; });
  }
  if (capabilities().sampling_slots) {
    refused("slots[1]", [](StepBatch& batch) { batch.slots = {2, 2}; });
  }
}

// Blocks that are only read may be shared; those that are written may not, wherever they are.
TEST_P(Conformance, WrittenBlocksBelongToOneRow) {
  const Ids ids = prompt(220, 20);
  feed(executor(), slice(ids, 0, 16), 0, {30});
  StepBatch batch;
  for (std::uint32_t row = 0; row < 2; ++row) {
    batch.add_row(inputs(slice(ids, 16, 20)), 16, {30, 31 + row});
    batch.add_output(OutputKind::token);
  }
  const StepResult result = executor().wait(executor().submit(batch));
  EXPECT_EQ(result.ids[0], result.ids[1]) << "rows share a full block";
  const auto refused = [&](const Blocks& first, const Blocks& second, std::uint32_t position) {
    expect_refused(
        [&] {
          StepBatch bad;
          bad.add_row({TokenInput::of(1)}, position, first);
          bad.add_row({TokenInput::of(1)}, position, second);
          executor().submit(bad);
        },
        "blocks[");
  };
  refused({30, 31}, {30, 31}, 16);  // both write it
  refused({30, 31}, {31, 32}, 16);  // one writes what the other reads
  refused({31, 32}, {30, 31}, 16);
  refused({30, 30}, {31, 32}, 16);  // a row reads what it writes elsewhere
  // Not used, so of no concern: entries behind the last position.
  StepBatch fine;
  fine.add_row({TokenInput::of(1)}, 16, {30, 31, 40, 32});
  fine.add_row({TokenInput::of(1)}, 16, {30, 32, 31, 40});
  EXPECT_EQ(executor().wait(executor().submit(fine)).status[1], RowStatus::ok);
}

TEST_P(Conformance, MalformedChainsAreRefused) {
  expect_refused(
      [&] { executor().submit(Submissions::valid(capabilities()), {.max_steps = 0, .stop_ids = {}}); },
      "max_steps");
  INFERNO_NEEDS(multi_step, "chained steps");
  EXPECT_EQ(executor().wait(executor().submit(Submissions::chain(), {.max_steps = 4, .stop_ids = {}})).steps,
            4U);
  const auto refused = [&](const std::string& needle, std::uint32_t steps, auto&& change) {
    SCOPED_TRACE(needle);
    expect_refused(
        [&] {
          StepBatch batch = Submissions::chain();
          change(batch);
          executor().submit(batch, {.max_steps = steps, .stop_ids = {}});
        },
        needle);
  };
  refused("max_steps", roomy().max_steps + 1, [](StepBatch&) {});
  refused("max_steps", kMost, [](StepBatch&) {});
  refused("block_offsets[1]", 5, [](StepBatch&) {});  // position 16 has no block
  refused("outputs", 2, [](StepBatch& batch) { batch.outputs.pop_back(); });
  refused("outputs", 2, [](StepBatch& batch) { batch.outputs.clear(); });
  refused("outputs", 2, [](StepBatch& batch) { batch.outputs.push_back(batch.outputs.back()); });
  refused("outputs[0].token", 2, [](StepBatch& batch) { batch.outputs[0].token = 0; });
}

TEST_P(Conformance, MalformedStopIdsAreRefused) {
  const auto refused = [&](const std::string& needle, const StopIds& stop_ids) {
    expect_refused([&] { executor().submit(Submissions::chain(), {.max_steps = 1, .stop_ids = stop_ids}); },
                   needle);
  };
  const auto size = static_cast<std::int32_t>(vocab_size());
  refused("stop_ids.ids[1]", {.ids = {0, size}, .row_offsets = {}});
  refused("stop_ids.ids[0]", {.ids = {-1}, .row_offsets = {}});
  refused("stop_ids.row_offsets", {.ids = {0, 1}, .row_offsets = {0, 2}});
  refused("stop_ids.row_offsets", {.ids = {0, 1}, .row_offsets = {0, 1, 2, 2}});
  refused("stop_ids.row_offsets[0]", {.ids = {0, 1}, .row_offsets = {1, 1, 2}});
  refused("stop_ids.row_offsets[2]", {.ids = {0, 1}, .row_offsets = {0, 1, 3}});
  refused("stop_ids.row_offsets[2]", {.ids = {0, 1}, .row_offsets = {0, 2, 1}});
  refused("stop_ids.row_offsets", {.ids = {0, 1}, .row_offsets = {0, kMost, 2}});
}

TEST_P(Conformance, LimitsHoldAtAndOneBeyond) {
  Limits limits = roomy();
  limits.max_rows = 3;
  limits.max_tokens = 24;
  limits.max_outputs = 5;
  limits.max_context = 40;
  limits.blocks = 9;
  const auto small = make(limits);
  const auto submit = [&](std::uint32_t rows, std::uint32_t tokens, std::uint32_t outputs,
                          std::uint32_t first) {
    StepBatch batch;
    for (std::uint32_t row = 0; row < rows; ++row) {
      batch.add_row(inputs(prompt(230, tokens)), first, block_run(row * 3, 3));
      for (std::uint32_t i = 0; i < outputs; ++i) batch.add_output(OutputKind::token);
    }
    return small->wait(small->submit(batch)).status.back();
  };
  const auto refused = [&](const std::string& needle, std::uint32_t rows, std::uint32_t tokens,
                           std::uint32_t outputs, std::uint32_t first) {
    try {
      submit(rows, tokens, outputs, first);
      ADD_FAILURE() << "beyond " << needle << " and not refused";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(needle), std::string::npos) << error.what();
    }
  };
  EXPECT_EQ(submit(3, 8, 1, 0), RowStatus::ok);
  refused("max_tokens", 3, 9, 1, 0);
  refused("max_tokens", 1, 25, 1, 0);
  EXPECT_EQ(submit(1, 24, 5, 0), RowStatus::ok);
  refused("max_outputs", 1, 24, 6, 0);
  refused("max_rows", 4, 1, 0, 0);
  EXPECT_EQ(submit(1, 24, 1, 16), RowStatus::ok);
  refused("max_context", 1, 24, 1, 17);
  refused("max_context", 1, 1, 1, 40);
  refused("max_context", 1, 1, 1, kMost);
  StepBatch last_block;
  last_block.add_row({TokenInput::of(0)}, 0, {8});
  EXPECT_EQ(small->wait(small->submit(last_block)).status[0], RowStatus::ok);
  last_block.blocks[0] = 9;
  EXPECT_THROW(small->submit(last_block), UsageError);
  EXPECT_EQ(submit(3, 8, 1, 0), RowStatus::ok) << "after all that";
}

TEST_P(Conformance, LimitsThatMakeNoSenseAreRefused) {
  const Ids ids = prompt(231, 9);
  const Transcript expected = generate(executor(), ids, 3);
  const auto refused = [&](const std::string& needle, auto&& change) {
    Limits limits = roomy();
    change(limits);
    try {
      executor().reserve(limits);
      ADD_FAILURE() << needle << " was not refused";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(needle), std::string::npos) << error.what();
    }
  };
  refused("max_rows", [](Limits& limits) { limits.max_rows = 0; });
  refused("max_tokens", [](Limits& limits) { limits.max_tokens = 0; });
  refused("max_outputs", [](Limits& limits) { limits.max_outputs = 0; });
  refused("max_steps", [](Limits& limits) { limits.max_steps = 0; });
  refused("max_context", [](Limits& limits) { limits.max_context = 0; });
  refused("blocks", [](Limits& limits) { limits.blocks = 0; });
  for (const std::uint32_t size : {0U, 3U, 48U, 257U, 512U, kMost}) {
    refused("block_size", [size](Limits& limits) { limits.block_size = size; });
  }
  EXPECT_EQ(executor().limits().blocks, roomy().blocks);
  EXPECT_EQ(generate(executor(), ids, 3), expected) << "what was reserved before is still there";
}

// More than any machine has: a clean refusal, after which a sensible size works.
TEST_P(Conformance, MemoryThatCannotBeHadIsAnError) {
  const Ids ids = prompt(232, 9);
  const Transcript expected = generate(executor(), ids, 3);
  Limits limits = roomy();
  limits.block_size = 256;
  limits.blocks = kMost - 1;
  limits.max_context = kMost;
  EXPECT_GT(executor().memory_need(limits).cache_bytes, std::uint64_t{1} << 40);
  EXPECT_THROW(executor().reserve(limits), Error);
  EXPECT_EQ(executor().limits().blocks, 0U) << "as before the first reserve";
  EXPECT_THROW(executor().submit(Submissions::valid(capabilities())), UsageError);
  executor().reserve(roomy());
  EXPECT_EQ(generate(executor(), ids, 3), expected);
}

TEST_P(Conformance, MemoryNeedGrowsWithTheLimits) {
  const MemoryNeed small = executor().memory_need(roomy());
  Limits limits = roomy();
  limits.blocks *= 2;
  EXPECT_EQ(executor().memory_need(limits).cache_bytes, 2 * small.cache_bytes);
  EXPECT_GT(small.cache_bytes, 0U);
  limits.max_tokens *= 2;
  EXPECT_GE(executor().memory_need(limits).scratch_bytes, small.scratch_bytes);
}

TEST_P(Conformance, NothingWorksBeforeReserve) {
  const auto bare = GetParam().make();
  EXPECT_FALSE(bare->capabilities().backend.empty());
  EXPECT_FALSE(bare->capabilities().device.empty());
  EXPECT_EQ(bare->limits().blocks, 0U);
  EXPECT_EQ(bare->limits().max_rows, 0U);
  EXPECT_GT(bare->memory_need(roomy()).cache_bytes, 0U);
  EXPECT_THROW(bare->submit(Submissions::valid(capabilities())), UsageError);
  EXPECT_THROW(bare->wait(1), UsageError);
  EXPECT_THROW(bare->poll(1), UsageError);
  EXPECT_THROW(bare->set_slot(0, {}), UsageError);
  EXPECT_THROW(bare->copy_blocks(std::vector<BlockCopy>{{0, 1}}), UsageError);
  EXPECT_THROW(bare->export_blocks(Blocks{0}), UsageError);
  EXPECT_THROW(bare->import_blocks(Blocks{0}, {}), UsageError);
}

TEST_P(Conformance, ResultsAreHandedOverOnce) {
  const Ticket ticket = executor().submit(Submissions::valid(capabilities()));
  EXPECT_NE(ticket, 0U);
  EXPECT_EQ(executor().wait(ticket).status[0], RowStatus::ok);
  expect_refused([&] { executor().wait(ticket); }, "ticket");
  expect_refused([&] { executor().poll(ticket); }, "ticket");
  expect_refused([&] { executor().wait(0); }, "ticket");
  expect_refused([&] { executor().wait(1'000'000); }, "ticket");
  expect_refused([&] { executor().poll(1'000'000); }, "ticket");
}

TEST_P(Conformance, WhatIsNotDeclaredIsRefused) {
  const Capabilities& can = capabilities();
  const auto refused = [&](OutputKind kind) {
    StepBatch batch;
    batch.add_row({TokenInput::of(0)}, 0, {0});
    batch.add_output(kind, 0);
    EXPECT_THROW(executor().submit(batch), UsageError);
  };
  if (!can.logits) refused(OutputKind::logits);
  if (!can.scores) refused(OutputKind::score);
  if (!can.hidden) refused(OutputKind::hidden);
  if (!can.multi_step) {
    EXPECT_THROW(executor().submit(Submissions::chain(), {.max_steps = 2, .stop_ids = {}}), UsageError);
  }
  if (!can.sampling_slots) {
    EXPECT_THROW(executor().set_slot(0, {}), UsageError);
  }
  if (!can.block_transfer) {
    EXPECT_THROW(executor().export_blocks(Blocks{0}), UsageError);
  }
  if (!can.observation) {
    StageObserver observer;
    SubmitOptions options;
    options.observer = &observer;
    EXPECT_THROW(executor().submit(Submissions::chain(), options), UsageError);
  }
  EXPECT_EQ(can.token_references, can.referable_tickets > 0);
  EXPECT_EQ(can.block_transfer, !can.cache_format.empty());
  EXPECT_TRUE(can.sampling_slots || !can.token_masks);
}

}  // namespace inferno::conformance
