// K chained steps: equal to K single ones, with ends inside.

#include <algorithm>

#include "conformance/conformance.hpp"

namespace inferno::conformance {

TEST_P(Conformance, ChainedStepsEqualSingleOnes) {
  INFERNO_NEEDS(multi_step, "chained steps");
  const Ids ids = prompt(40, 12);
  const Transcript single = generate(executor(), ids, 15);
  for (const std::uint32_t chain : {2U, 3U, 5U, 8U, 15U}) {
    EXPECT_EQ(generate(executor(), ids, 15, {.chain = chain}), single) << "chains of " << chain;
    EXPECT_EQ(generate(executor(), ids, 15, {.blocks = {9, 30, 4}, .chunk = 5, .chain = chain}), single);
  }
}

TEST_P(Conformance, ChainedRowsEqualRowsAlone) {
  INFERNO_NEEDS(multi_step, "chained steps");
  StepBatch batch;
  std::vector<Transcript> alone;
  for (std::uint32_t row = 0; row < 5; ++row) {
    const Ids ids = prompt(50 + row, 1 + row * 9);
    alone.push_back(generate(executor(), ids, 10));
    batch.add_row(inputs(ids), 0, block_run(10 + row * 5, 5));
    batch.add_output(OutputKind::token);
  }
  const StepResult result = executor().wait(executor().submit(batch, {.max_steps = 10, .stop_ids = {}}));
  EXPECT_EQ(result.steps, 10U);
  for (std::size_t row = 0; row < 5; ++row) EXPECT_EQ(result.ids[row], alone[row].ids) << "row " << row;
}

TEST_P(Conformance, StopIdsEndAChain) {
  INFERNO_NEEDS(multi_step, "chained steps");
  for (const std::size_t at : {0U, 1U, 4U, 7U}) {
    const Turn turn = turn_at(at, 12, 60 + at);
    StepBatch batch;
    batch.add_row(inputs(turn.prompt), 0, block_run(0, 2));
    batch.add_output(OutputKind::token);
    const StepResult result = executor().wait(
        executor().submit(batch, {.max_steps = 8, .stop_ids = {.ids = {turn.id()}, .row_offsets = {}}}));
    EXPECT_EQ(result.status[0], RowStatus::stopped);
    EXPECT_EQ(result.ids[0], slice(turn.transcript.ids, 0, at + 1)) << "the stop id is its last id";
    EXPECT_EQ(result.steps, at + 1) << "nothing is left to run";

    // The stop id's place is free: a host that goes on regardless gets what it would have got.
    StepBatch next;
    next.add_row({TokenInput::of(turn.id())}, static_cast<std::uint32_t>(turn.prompt.size() + at),
                 block_run(0, 2));
    next.add_output(OutputKind::token);
    EXPECT_EQ(executor().wait(executor().submit(next)).ids[0], slice(turn.transcript.ids, at + 1, at + 2));
  }
}

TEST_P(Conformance, StopIdsCountInASingleStep) {
  const Turn turn = turn_at(0, 1);
  StepBatch batch;
  batch.add_row(inputs(turn.prompt), 0, block_run(0, 2));
  batch.add_output(OutputKind::token);
  batch.add_row(inputs(turn.prompt), 0, block_run(2, 2));
  SubmitOptions options;
  options.stop_ids.ids = {turn.id()};
  const StepResult result = executor().wait(executor().submit(batch, options));
  EXPECT_EQ(result.status[0], RowStatus::stopped);
  EXPECT_EQ(result.ids[0], Ids{turn.id()});
  EXPECT_EQ(result.status[1], RowStatus::ok) << "a row that chooses nothing cannot stop";
}

TEST_P(Conformance, RowsStopAtDifferentSteps) {
  INFERNO_NEEDS(multi_step, "chained steps");
  const std::vector<std::size_t> ends = {5, 0, 12, 2, 7};
  StepBatch batch;
  SubmitOptions options;
  options.max_steps = 10;
  options.stop_ids.row_offsets = {0};
  std::vector<Turn> turns;
  for (std::size_t row = 0; row < ends.size(); ++row) {
    turns.push_back(turn_at(ends[row], 13, 70 + row));
    batch.add_row(inputs(turns[row].prompt), 0, block_run(10 + static_cast<std::uint32_t>(row) * 2, 2));
    batch.add_output(OutputKind::token);
    options.stop_ids.ids.push_back(turns[row].id());
    options.stop_ids.row_offsets.push_back(static_cast<std::uint32_t>(row + 1));
  }
  const StepResult result = executor().wait(executor().submit(batch, options));
  EXPECT_EQ(result.steps, 10U) << "row 2 runs to the end";
  for (std::size_t row = 0; row < ends.size(); ++row) {
    const bool stops = ends[row] < 10;
    EXPECT_EQ(result.status[row], stops ? RowStatus::stopped : RowStatus::ok) << "row " << row;
    EXPECT_EQ(result.ids[row], slice(turns[row].transcript.ids, 0, stops ? ends[row] + 1 : 10))
        << "row " << row;
  }
}

TEST_P(Conformance, StopIdsOfOneRowDoNotStopAnother) {
  INFERNO_NEEDS(multi_step, "chained steps");
  const Turn turn = turn_at(3, 10);
  StepBatch batch;
  for (std::uint32_t row = 0; row < 3; ++row) {
    batch.add_row(inputs(turn.prompt), 0, block_run(row * 2, 2));
    batch.add_output(OutputKind::token);
  }
  // Rows 0 and 2 have none; row 1 has two.
  const std::int32_t later = turn.transcript.ids[9];
  SubmitOptions options;
  options.max_steps = 10;
  options.stop_ids = {.ids = {later, turn.id()}, .row_offsets = {0, 0, 2, 2}};
  const StepResult result = executor().wait(executor().submit(batch, options));
  EXPECT_EQ(result.ids[0], turn.transcript.ids);
  EXPECT_EQ(result.status[0], RowStatus::ok);
  EXPECT_LE(result.ids[1].size(), 4U);
  EXPECT_EQ(result.ids[1], slice(turn.transcript.ids, 0, result.ids[1].size()));
  EXPECT_EQ(result.status[1], RowStatus::stopped);
  EXPECT_EQ(result.ids[2], turn.transcript.ids);
}

TEST_P(Conformance, OneListOfStopIdsHoldsForAllRows) {
  INFERNO_NEEDS(multi_step, "chained steps");
  const Turn first = turn_at(2, 8, 80);
  const Turn second = turn_at(5, 8, 81);
  StepBatch batch;
  SubmitOptions options;
  options.max_steps = 8;
  options.stop_ids.ids = {first.id(), second.id()};
  for (const Turn* turn : {&first, &second}) {
    batch.add_row(inputs(turn->prompt), 0, block_run(static_cast<std::uint32_t>(batch.rows()) * 2, 2));
    batch.add_output(OutputKind::token);
  }
  const StepResult result = executor().wait(executor().submit(batch, options));
  std::size_t row = 0;
  for (const Turn* turn : {&first, &second}) {
    const Ids& ids = turn->transcript.ids;
    const auto end =
        std::find_first_of(ids.begin(), ids.end(), options.stop_ids.ids.begin(), options.stop_ids.ids.end());
    ASSERT_NE(end, ids.end());
    EXPECT_EQ(result.ids[row], Ids(ids.begin(), end + 1));
    EXPECT_EQ(result.status[row], RowStatus::stopped);
    ++row;
  }
}

TEST_P(Conformance, OutputsOfAChain) {
  INFERNO_NEEDS(multi_step, "chained steps");
  INFERNO_NEEDS(logits, "logits");
  INFERNO_NEEDS(scores, "scores");
  INFERNO_NEEDS(hidden, "hidden states");
  const Ids ids = prompt(41, 9);
  const Transcript single = generate(executor(), ids, 4);
  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(0, 2));
  batch.add_output_at(2, OutputKind::logits);          // 0: step 0 only
  batch.add_output_at(2, OutputKind::hidden);          // 1: step 0 only
  batch.add_output_at(4, OutputKind::score, 1);        // 2: step 0 only
  batch.add_output(OutputKind::hidden);                // 3: every step
  batch.add_output(OutputKind::score, single.ids[0]);  // 4: step 0 only
  batch.add_output(OutputKind::token);                 // 5: every step
  batch.add_output(OutputKind::logits);                // 6: every step
  const StepResult result = executor().wait(executor().submit(batch, {.max_steps = 4, .stop_ids = {}}));
  EXPECT_EQ(result.steps, 4U);
  EXPECT_EQ(result.values[0].size(), vocab_size());
  EXPECT_EQ(result.values[1].size(), config().hidden_size);
  EXPECT_EQ(result.scores[2].size(), 1U);
  EXPECT_EQ(result.values[3].size(), std::size_t{4} * config().hidden_size);
  EXPECT_EQ(result.scores[4].size(), 1U);
  EXPECT_EQ(result.ids[5], single.ids);
  EXPECT_TRUE(same_bits(result.values[6], single.logits));
  EXPECT_TRUE(result.ids[6].empty());
  EXPECT_TRUE(result.values[5].empty());
}

TEST_P(Conformance, ChainsEndExactlyAtTheContext) {
  INFERNO_NEEDS(multi_step, "chained steps");
  const Ids ids = prompt(42, 10);
  const Transcript expected = generate(executor(), ids, 7);
  Limits limits = roomy();
  limits.max_context = 16;  // 10 of the prompt and the first 6 chosen are written
  limits.blocks = 1;
  const auto small = make(limits);
  EXPECT_EQ(generate(*small, ids, 7, {.chain = 7}), expected);
}

}  // namespace inferno::conformance
