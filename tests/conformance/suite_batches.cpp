// Invariance: a row's result depends on its own tokens, positions, cache and slot alone.

#include <algorithm>

#include "conformance/conformance.hpp"
#include "kv/sequence_cache.hpp"

namespace inferno::conformance {

TEST_P(Conformance, DecodeEqualsPrefill) {
  INFERNO_NEEDS(logits, "logits");
  const Ids ids = prompt(1, 21);
  const Transcript decoded = generate(executor(), ids, 20);
  const Ids whole = joined(ids, slice(decoded.ids, 0, 19));
  const std::vector<float> prefilled = all_logits(executor(), whole, block_run(100, 3));
  const std::vector<float> tail(prefilled.begin() + static_cast<std::ptrdiff_t>(20 * vocab_size()),
                                prefilled.end());
  EXPECT_TRUE(same_bits(tail, decoded.logits));
}

TEST_P(Conformance, ChunkedPromptsEqualWholeOnes) {
  const Ids ids = prompt(2, 50);
  const Transcript whole = generate(executor(), ids, 6);
  for (const std::uint32_t chunk : {1U, 3U, 7U, 16U, 32U, 49U}) {
    EXPECT_EQ(generate(executor(), ids, 6, {.chunk = chunk}), whole) << "chunks of " << chunk;
  }
}

TEST_P(Conformance, ChunkedPromptsGiveEqualLogitsEverywhere) {
  INFERNO_NEEDS(logits, "logits");
  const Ids ids = prompt(3, 40);
  const std::vector<float> whole = all_logits(executor(), ids);
  for (const std::uint32_t chunk : {1U, 3U, 16U}) {
    std::vector<float> pieces;
    for (std::uint32_t begin = 0; begin < ids.size(); begin += chunk) {
      const auto end = std::min<std::uint32_t>(begin + chunk, 40);
      StepBatch batch;
      batch.add_row(inputs(slice(ids, begin, end)), begin, block_run(20, 3));
      for (std::uint32_t i = 0; i < end - begin; ++i) batch.add_output_at(i, OutputKind::logits);
      for (const auto& values : executor().wait(executor().submit(batch)).values) {
        pieces.insert(pieces.end(), values.begin(), values.end());
      }
    }
    EXPECT_TRUE(same_bits(pieces, whole)) << "chunks of " << chunk;
  }
}

// A prompt, the middle of another, a decode step and the end of a third in one batch.
TEST_P(Conformance, RaggedRowsEqualRowsAlone) {
  struct Part {
    Ids ids;              // the whole sequence
    std::uint32_t begin;  // what was fed before
  };
  const std::vector<Part> parts = {{prompt(4, 37), 0}, {prompt(5, 60), 23}, {prompt(6, 18), 17},
                                   {prompt(7, 1), 0},  {prompt(8, 45), 16}, {prompt(9, 16), 0}};
  const auto add = [&](StepBatch& batch, const Part& part, std::uint32_t first_block) {
    batch.add_row(inputs(slice(part.ids, part.begin, part.ids.size())), part.begin,
                  table_for(executor(), part.ids.size() + 1, first_block));
    batch.add_output(OutputKind::token);
    if (capabilities().logits) batch.add_output(OutputKind::logits);
  };
  StepBatch together;
  std::vector<StepResult> alone;
  std::uint32_t block = 0;
  for (const Part& part : parts) {
    feed(executor(), slice(part.ids, 0, part.begin), 0, table_for(executor(), part.ids.size() + 1, block));
    StepBatch batch;
    add(batch, part, block);
    alone.push_back(executor().wait(executor().submit(batch)));
    add(together, part, block);
    block += 8;
  }
  const StepResult result = executor().wait(executor().submit(together));
  const std::size_t outputs = capabilities().logits ? 2 : 1;
  for (std::size_t row = 0; row < parts.size(); ++row) {
    EXPECT_EQ(result.status[row], RowStatus::ok);
    for (std::size_t i = 0; i < outputs; ++i) {
      EXPECT_EQ(result.ids[row * outputs + i], alone[row].ids[i]) << "row " << row;
      EXPECT_TRUE(same_bits(result.values[row * outputs + i], alone[row].values[i])) << "row " << row;
    }
  }
}

namespace {

// Decodes rows together, one step a submission, and returns what each got.
std::vector<Transcript> decode_together(Executor& executor, const std::vector<Ids>& prompts,
                                        std::size_t count) {
  const bool with_logits = executor.capabilities().logits;
  std::vector<Transcript> transcripts(prompts.size());
  for (std::size_t step = 0; step < count; ++step) {
    StepBatch batch;
    for (std::size_t row = 0; row < prompts.size(); ++row) {
      const Ids next = step == 0 ? prompts[row] : Ids{transcripts[row].ids.back()};
      const auto position = static_cast<std::uint32_t>(step == 0 ? 0 : prompts[row].size() + step - 1);
      batch.add_row(inputs(next), position, block_run(static_cast<std::uint32_t>(row) * 6, 6));
      batch.add_output(OutputKind::token);
      if (with_logits) batch.add_output(OutputKind::logits);
    }
    const StepResult result = executor.wait(executor.submit(batch));
    for (std::size_t row = 0; row < prompts.size(); ++row) {
      const std::size_t output = row * (with_logits ? 2 : 1);
      transcripts[row].ids.push_back(result.ids[output].at(0));
      if (!with_logits) continue;
      const auto& logits = result.values[output + 1];
      transcripts[row].logits.insert(transcripts[row].logits.end(), logits.begin(), logits.end());
    }
  }
  return transcripts;
}

}  // namespace

TEST_P(Conformance, OneAmongEightEqualRows) {
  const Ids ids = prompt(10, 19);
  const Transcript alone = generate(executor(), ids, 8);
  for (const Transcript& one : decode_together(executor(), std::vector<Ids>(8, ids), 8))
    EXPECT_EQ(one, alone);
}

TEST_P(Conformance, OneAmongEightDifferentRows) {
  std::vector<Ids> prompts;
  for (std::size_t row = 0; row < 8; ++row) prompts.push_back(prompt(20 + row, 3 + 7 * row));
  const std::vector<Transcript> together = decode_together(executor(), prompts, 8);
  for (std::size_t row = 0; row < 8; ++row) {
    EXPECT_EQ(together[row], generate(executor(), prompts[row], 8)) << "row " << row;
  }
}

TEST_P(Conformance, BlocksDoNotMatter) {
  const Ids ids = prompt(11, 40);
  const Transcript expected = generate(executor(), ids, 10);
  EXPECT_EQ(generate(executor(), ids, 10, {.blocks = {90, 3, 61, 17}}), expected);
  EXPECT_EQ(generate(executor(), ids, 10, {.blocks = {191, 190, 189, 188}}), expected);
  EXPECT_EQ(generate(executor(), ids, 10, {.blocks = {5, 0, 7, 1, 100, 2, 9}}), expected)
      << "a table may be longer than it needs to be";
}

TEST_P(Conformance, EarlierWorkDoesNotMatter) {
  const Ids ids = prompt(12, 33);
  const Transcript expected = generate(*make(), ids, 10);
  feed(executor(), prompt(13, 300), 0, block_run(0, 20), 64);
  generate(executor(), prompt(14, 100), 30,
           {.blocks = block_run(0, 9), .chain = capabilities().multi_step ? 5U : 1U});
  EXPECT_EQ(generate(executor(), ids, 10, {.blocks = {4, 2, 3}}), expected);
}

TEST_P(Conformance, WorkInBetweenDoesNotMatter) {
  const Ids ids = prompt(15, 30);
  const Transcript expected = generate(executor(), ids, 6);
  feed(executor(), slice(ids, 0, 17), 0, block_run(50, 3));
  generate(executor(), prompt(16, 80), 5, {.blocks = block_run(0, 6)});
  feed(executor(), slice(ids, 17, 29), 17, block_run(50, 3));
  generate(executor(), prompt(17, 9), 5, {.blocks = block_run(0, 6)});
  StepBatch batch;
  batch.add_row({TokenInput::of(ids[29])}, 29, block_run(50, 3));
  batch.add_output(OutputKind::token);
  EXPECT_EQ(executor().wait(executor().submit(batch)).ids[0], slice(expected.ids, 0, 1));
}

TEST_P(Conformance, LimitsDoNotMatter) {
  const Ids ids = prompt(18, 30);
  const Transcript expected = generate(executor(), ids, 8);
  Limits limits = roomy();
  limits.max_rows = 1;
  limits.max_tokens = 30;
  limits.max_outputs = 2;
  limits.max_steps = 1;
  limits.max_context = 37;
  limits.blocks = 3;
  limits.slots = 0;
  EXPECT_EQ(generate(*make(limits), ids, 8), expected);
  limits.max_rows = 64;
  limits.max_tokens = 1000;
  limits.max_outputs = 777;
  limits.max_steps = 100;
  limits.max_context = 3000;
  limits.blocks = 300;
  limits.slots = 3;
  EXPECT_EQ(generate(*make(limits), ids, 8), expected);
}

TEST_P(Conformance, BlockSizeDoesNotMatter) {
  const Ids ids = prompt(19, 290);
  const Transcript expected = generate(executor(), ids, 6);
  for (const std::uint32_t size : {1U, 2U, 16U, 64U, 256U}) {
    Limits limits = roomy();
    limits.block_size = size;
    limits.blocks = 512 / size + 2;
    EXPECT_EQ(generate(*make(limits), ids, 6, {.chunk = 100}), expected) << "blocks of " << size;
  }
}

TEST_P(Conformance, ChunksAroundASplitDoNotMatter) {
  const Ids ids = prompt(29, 270);
  const Transcript expected = generate(executor(), ids, 3);
  for (const std::uint32_t chunk : {255U, 256U, 257U, 64U}) {
    EXPECT_EQ(generate(executor(), ids, 3, {.chunk = chunk}), expected) << "chunks of " << chunk;
  }
}

TEST_P(Conformance, KindsOfCacheDoNotMatter) {
  const Ids ids = prompt(30, 35);
  const Transcript expected = generate(executor(), ids, 8);
  for (const KvKind kind : {KvKind::none, KvKind::basic, KvKind::paged}) {
    BlockPool pool(executor().limits().blocks);
    const std::vector<std::uint32_t> others = pool.take(2);
    SequenceCache cache(pool, kind, executor().limits().block_size, 64);
    Ids sequence = ids;
    Ids chosen;
    for (int step = 0; step < 8; ++step) {
      const auto total = static_cast<std::uint32_t>(sequence.size());
      ASSERT_TRUE(cache.extend(total));
      StepBatch batch;
      batch.add_row(inputs(slice(sequence, cache.length(), total)), cache.length(), cache.blocks());
      batch.add_output(OutputKind::token);
      chosen.push_back(executor().wait(executor().submit(batch)).ids[0].at(0));
      cache.advance(total);
      sequence.push_back(chosen.back());
    }
    EXPECT_EQ(chosen, expected.ids) << kv_kind_name(kind);
  }
}

TEST_P(Conformance, ReserveAgainStartsAfresh) {
  const Ids ids = prompt(31, 25);
  const Transcript expected = generate(executor(), ids, 5);
  Limits limits = roomy();
  limits.block_size = 64;
  limits.blocks = 5;
  executor().reserve(limits);
  EXPECT_EQ(executor().limits().blocks, 5U);
  EXPECT_EQ(generate(executor(), ids, 5), expected);
  executor().reserve(roomy());
  EXPECT_EQ(generate(executor(), ids, 5), expected);
}

TEST_P(Conformance, SubmissionsTakeEffectInOrder) {
  const Ids ids = prompt(32, 48);
  const Transcript expected = generate(executor(), ids, 2, {.blocks = block_run(60, 4)});
  std::vector<Ticket> tickets;
  for (std::uint32_t begin = 0; begin < 48; begin += 12) {
    StepBatch batch;
    batch.add_row(inputs(slice(ids, begin, begin + 12)), begin, block_run(0, 4));
    batch.add_output(OutputKind::token);
    tickets.push_back(executor().submit(batch));
    EXPECT_EQ(tickets.back(), tickets.front() + tickets.size() - 1) << "tickets count up";
  }
  // Results may be fetched in any order.
  EXPECT_EQ(executor().wait(tickets[3]).ids[0], slice(expected.ids, 0, 1));
  EXPECT_EQ(executor().wait(tickets[0]).status[0], RowStatus::ok);
  EXPECT_EQ(executor().wait(tickets[2]).status[0], RowStatus::ok);
  EXPECT_EQ(executor().wait(tickets[1]).status[0], RowStatus::ok);
}

TEST_P(Conformance, PollComesToAnEnd) {
  const Ids ids = prompt(33, 20);
  const Transcript expected = generate(executor(), ids, 1, {.blocks = block_run(60, 2)});
  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(0, 2));
  batch.add_output(OutputKind::token);
  const Ticket first = executor().submit(batch);
  const Ticket second = executor().submit(batch);
  while (!executor().poll(second)) {
  }
  EXPECT_TRUE(executor().poll(first));
  EXPECT_TRUE(executor().poll(second));
  EXPECT_EQ(executor().wait(second).ids[0], expected.ids);
  EXPECT_EQ(executor().wait(first).ids[0], expected.ids);
}

}  // namespace inferno::conformance
