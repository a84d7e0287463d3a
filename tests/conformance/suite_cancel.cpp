// Cancelling: from before to after, from callbacks and from other threads. Whatever the moment, the ids so
// far are those of an undisturbed run and the cache goes on from them.

#include <atomic>
#include <thread>

#include "conformance/conformance.hpp"

namespace inferno::conformance {
namespace {

// Cancels a ticket when output values of a given step arrive.
class CancellingSink : public OutputSink {
 public:
  CancellingSink(Executor& executor, std::uint32_t step) : executor_(executor), step_(step) {}
  void take(std::uint32_t /*output*/, std::uint32_t step, std::span<const float> /*values*/) override {
    if (step == step_) executor_.cancel(ticket);
  }
  Ticket ticket = 0;

 private:
  Executor& executor_;
  std::uint32_t step_;
};

// Notes the ids that come, and says that it has enough once those of a given step have.
class TokenSink : public OutputSink {
 public:
  explicit TokenSink(std::uint32_t step) : step_(step) {}
  void take(std::uint32_t /*output*/, std::uint32_t /*step*/, std::span<const float> /*values*/) override {}
  void take_token(std::uint32_t output, std::uint32_t step, std::int32_t id) override {
    EXPECT_EQ(output, 0U);
    EXPECT_EQ(step, ids.size());
    ids.push_back(id);
    if (step == step_) cancelled = true;
  }
  Ids ids;
  std::atomic<bool> cancelled = false;

 private:
  std::uint32_t step_;
};

class CancellingObserver : public StageObserver {
 public:
  CancellingObserver(Executor& executor, int step) : executor_(executor), step_(step) {}
  void begin(const StageEvent& event) override {
    if (event.stage == Stage::embedding && step_-- == 0) executor_.cancel(ticket);
  }
  Ticket ticket = 0;

 private:
  Executor& executor_;
  int step_;
};

}  // namespace

class CancelledRow {
 public:
  // Goes on, in the cache that the cancelled row left, from what it chose.
  static void expect_continues(Executor& executor, const StepResult& result, const Ids& prompt,
                               const Ids& expected, const Blocks& blocks) {
    const Ids& ids = result.ids[0];
    ASSERT_LE(ids.size(), expected.size());
    EXPECT_EQ(ids, slice(expected, 0, ids.size()));
    EXPECT_EQ(result.steps, ids.size());
    EXPECT_EQ(result.status[0], ids.size() < expected.size() ? RowStatus::cancelled : RowStatus::ok);
    Ids all = ids;
    while (all.size() < expected.size()) {
      StepBatch batch;
      if (all.empty()) {
        batch.add_row(inputs(prompt), 0, blocks);
      } else {
        batch.add_row({TokenInput::of(all.back())},
                      static_cast<std::uint32_t>(prompt.size() + all.size() - 1), blocks);
      }
      batch.add_output(OutputKind::token);
      all.push_back(executor.wait(executor.submit(batch)).ids[0].at(0));
    }
    EXPECT_EQ(all, expected);
  }
};

TEST_P(Conformance, CancelBeforeAnythingRan) {
  const Ids ids = prompt(120, 9);
  const Transcript expected = generate(executor(), ids, 1);
  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(10, 2));
  batch.add_output(OutputKind::token);
  const Ticket before = executor().submit(batch);
  const Ticket ticket = executor().submit(batch);
  const Ticket after = executor().submit(batch);
  executor().cancel(ticket);
  executor().cancel(ticket);
  EXPECT_EQ(executor().wait(after).ids[0], expected.ids) << "other submissions are not concerned";
  const StepResult result = executor().wait(ticket);
  if (!capabilities().asynchronous) {
    EXPECT_EQ(result.status[0], RowStatus::cancelled);
    EXPECT_EQ(result.steps, 0U);
  }
  CancelledRow::expect_continues(executor(), result, ids, expected.ids, block_run(10, 2));
  EXPECT_EQ(executor().wait(before).ids[0], expected.ids);
}

TEST_P(Conformance, CancelFromTheSink) {
  INFERNO_NEEDS(multi_step, "chained steps");
  INFERNO_NEEDS(logits, "logits");
  const Ids ids = prompt(121, 9);
  const Transcript expected = generate(executor(), ids, 12);
  for (const std::uint32_t step : {0U, 3U, 11U}) {
    CancellingSink sink(executor(), step);
    StepBatch batch;
    batch.add_row(inputs(ids), 0, block_run(10, 2));
    batch.add_output(OutputKind::token);
    batch.add_output(OutputKind::logits);
    SubmitOptions options;
    options.max_steps = 12;
    options.sink = &sink;
    sink.ticket = executor().submit(batch, options);
    const StepResult result = executor().wait(sink.ticket);
    if (!capabilities().asynchronous) {
      EXPECT_EQ(result.steps, step + 1) << "after the step that is running";
    }
    CancelledRow::expect_continues(executor(), result, ids, expected.ids, block_run(10, 2));
  }
}

TEST_P(Conformance, TokensComeToTheSinkAndAFlagCancels) {
  INFERNO_NEEDS(multi_step, "chained steps");
  const Ids ids = prompt(125, 9);
  const Transcript expected = generate(executor(), ids, 12);
  for (const std::uint32_t step : {0U, 4U, 11U, 12U}) {
    TokenSink sink(step);
    StepBatch batch;
    batch.add_row(inputs(ids), 0, block_run(10, 2));
    batch.add_output(OutputKind::token);
    SubmitOptions options;
    options.max_steps = 12;
    options.sink = &sink;
    options.cancelled = &sink.cancelled;
    const StepResult result = executor().wait(executor().submit(batch, options));
    EXPECT_EQ(sink.ids, result.ids[0]);
    EXPECT_GT(result.steps, std::min(step, 11U)) << "what it has seen was chosen";
    CancelledRow::expect_continues(executor(), result, ids, expected.ids, block_run(10, 2));
  }
}

TEST_P(Conformance, AFlagThatIsTrueLetsNothingRun) {
  const Ids ids = prompt(126, 9);
  const Transcript expected = generate(executor(), ids, 1);
  const std::atomic<bool> cancelled = true;
  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(10, 2));
  batch.add_output(OutputKind::token);
  SubmitOptions options;
  options.cancelled = &cancelled;
  const StepResult result = executor().wait(executor().submit(batch, options));
  if (!capabilities().asynchronous) {
    EXPECT_EQ(result.status[0], RowStatus::cancelled);
    EXPECT_EQ(result.steps, 0U);
  }
  CancelledRow::expect_continues(executor(), result, ids, expected.ids, block_run(10, 2));
}

TEST_P(Conformance, CancelFromTheObserver) {
  INFERNO_NEEDS(multi_step, "chained steps");
  INFERNO_NEEDS(observation, "observation");
  const Ids ids = prompt(122, 9);
  const Transcript expected = generate(executor(), ids, 12);
  for (const int step : {0, 5, 11}) {
    CancellingObserver observer(executor(), step);
    StepBatch batch;
    batch.add_row(inputs(ids), 0, block_run(10, 2));
    batch.add_output(OutputKind::token);
    SubmitOptions options;
    options.max_steps = 12;
    options.observer = &observer;
    observer.ticket = executor().submit(batch, options);
    const StepResult result = executor().wait(observer.ticket);
    if (!capabilities().asynchronous) {
      EXPECT_EQ(result.steps, static_cast<std::uint32_t>(step + 1));
    }
    CancelledRow::expect_continues(executor(), result, ids, expected.ids, block_run(10, 2));
  }
}

TEST_P(Conformance, CancelBetweenPolls) {
  INFERNO_NEEDS(multi_step, "chained steps");
  const Ids ids = prompt(123, 9);
  const Transcript expected = generate(executor(), ids, 12);
  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(10, 2));
  batch.add_output(OutputKind::token);
  const Ticket ticket = executor().submit(batch, {.max_steps = 12, .stop_ids = {}});
  executor().poll(ticket);
  executor().poll(ticket);
  executor().cancel(ticket);
  while (!executor().poll(ticket)) {
  }
  const StepResult result = executor().wait(ticket);
  if (!capabilities().asynchronous) {
    EXPECT_EQ(result.steps, 2U);
  }
  CancelledRow::expect_continues(executor(), result, ids, expected.ids, block_run(10, 2));
}

// A thread that cancels everything all the time, while submissions come, run and end.
TEST_P(Conformance, CancelFromAnotherThread) {
  const Ids ids = prompt(124, 4);
  const std::uint32_t chain = capabilities().multi_step ? 12 : 1;
  const Transcript expected = generate(executor(), ids, chain, {.blocks = block_run(10, 2)});
  std::atomic<Ticket> newest = 1;
  std::atomic<bool> ended = false;
  std::thread other([&, &tested = executor()] {
    std::uint64_t turn = 0;
    while (!ended) {
      const Ticket ticket = newest;
      if (++turn % 3 != 0) tested.cancel(ticket);
      tested.cancel(ticket + 1);
      if (ticket > 1) tested.cancel(ticket - 1);
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 40; ++round) {
    StepBatch batch;
    batch.add_row(inputs(ids), 0, block_run(10, 2));
    batch.add_output(OutputKind::token);
    const Ticket ticket = executor().submit(batch, {.max_steps = chain, .stop_ids = {}});
    newest = ticket;
    const StepResult result = executor().wait(ticket);
    EXPECT_EQ(result.ids[0], slice(expected.ids, 0, result.ids[0].size()));
    EXPECT_EQ(result.status[0], result.ids[0].size() < chain ? RowStatus::cancelled : RowStatus::ok);
  }
  ended = true;
  other.join();
}

TEST_P(Conformance, CancelOfWhatIsDoneOrUnknown) {
  const Ids ids = prompt(125, 9);
  const Transcript expected = generate(executor(), ids, 1);
  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(10, 2));
  batch.add_output(OutputKind::token);
  const Ticket ticket = executor().submit(batch);
  while (!executor().poll(ticket)) {
  }
  executor().cancel(ticket);
  executor().cancel(0);
  executor().cancel(ticket + 1);
  executor().cancel(~Ticket{0});
  EXPECT_EQ(executor().wait(ticket).ids[0], expected.ids);
  executor().cancel(ticket);
  EXPECT_EQ(executor().wait(executor().submit(batch)).ids[0], expected.ids)
      << "the next ticket was not cancelled";
  const auto unreserved = GetParam().make();
  unreserved->cancel(1);
}

// Rows that ended before the submission was cancelled keep their status.
TEST_P(Conformance, CancelLeavesEndedRowsAlone) {
  INFERNO_NEEDS(multi_step, "chained steps");
  INFERNO_NEEDS(logits, "logits");
  const Turn turn = turn_at(1, 2);
  CancellingSink sink(executor(), 4);
  StepBatch batch;
  SubmitOptions options;
  options.max_steps = 12;
  options.stop_ids = {.ids = {turn.id()}, .row_offsets = {0, 1, 1}};
  options.sink = &sink;
  for (std::uint32_t row = 0; row < 2; ++row) {
    batch.add_row(inputs(turn.prompt), 0, block_run(10 + row * 2, 2));
    batch.add_output(OutputKind::token);
    batch.add_output(OutputKind::logits);
  }
  sink.ticket = executor().submit(batch, options);
  const StepResult result = executor().wait(sink.ticket);
  EXPECT_EQ(result.status[0], RowStatus::stopped);
  EXPECT_EQ(result.ids[0].size(), 2U);
  if (!capabilities().asynchronous) {
    EXPECT_EQ(result.status[1], RowStatus::cancelled);
    EXPECT_EQ(result.ids[2].size(), 5U);
  }
}

}  // namespace inferno::conformance
