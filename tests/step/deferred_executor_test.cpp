// What the shared executor does beyond the rules of the seam: callbacks that misbehave, backends that
// misbehave, and what a step costs.

#include "step/deferred_executor.hpp"

#include <chrono>
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <stdexcept>

#include "step/toy_executor.hpp"

namespace inferno {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ModelConfig kConfig = toy::toy_config();

Limits roomy() {
  return {.max_rows = 8,
          .max_tokens = 64,
          .max_outputs = 64,
          .max_steps = 8,
          .max_context = 128,
          .block_size = 16,
          .blocks = 32,
          .slots = 4};
}

Capabilities everything() {
  Capabilities can;
  can.backend = "scripted";
  can.multi_step = can.token_references = can.sampling_slots = can.token_masks = true;
  can.logits = can.scores = can.hidden = can.observation = true;
  can.referable_tickets = 4;
  return can;
}

// A backend whose step is a function of the test's.
class Scripted : public DeferredExecutor {
 public:
  using Step = std::function<void(const StepWork&, HeadConsumer&)>;
  explicit Scripted(Step step) : DeferredExecutor(kConfig, everything()), step_(std::move(step)) {
    reserve(roomy());
  }
  MemoryNeed memory_need(const Limits& /*limits*/) const override { return {}; }

 protected:
  void allocate(const Limits& /*limits*/) override {}
  void run_step(const StepWork& work, HeadConsumer& head) override { step_(work, head); }
  std::size_t block_bytes() const override { return 1; }
  void copy_block(std::uint32_t /*source*/, std::uint32_t /*target*/) override {}
  void read_block(std::uint32_t /*block*/, std::span<std::byte> /*target*/) const override {}
  void write_block(std::uint32_t /*block*/, std::span<const std::byte> /*source*/) override {}

 private:
  Step step_;
};

std::vector<float> flat(float value = 0.0F) {
  return std::vector<float>(kConfig.vocab_size, value);
}

// The given logits for every head row.
Scripted::Step always(std::vector<float> logits) {
  return [logits](const StepWork& work, HeadConsumer& head) {
    const std::vector<float> hidden(kConfig.hidden_size, 0.5F);
    for (std::uint32_t row = 0; row < work.plan.head_tokens.size(); ++row) {
      head.take_hidden(row, hidden);
      if (head.wants_logits(row)) head.take_logits(row, logits);
    }
  };
}

StepBatch rows_of(std::uint32_t rows, std::uint32_t tokens, OutputKind kind, std::int32_t target = -1) {
  StepBatch batch;
  for (std::uint32_t row = 0; row < rows; ++row) {
    batch.add_row(std::vector<TokenInput>(tokens, TokenInput::of(1)), 0, {row * 2, row * 2 + 1});
    batch.add_output(kind, target);
  }
  return batch;
}

StepResult run(Executor& executor, const StepBatch& batch, const SubmitOptions& options = {}) {
  return executor.wait(executor.submit(batch, options));
}

TEST(DeferredExecutor, ScoresAreStable) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto score = [](std::vector<float> logits, std::int32_t target) {
    Scripted executor(always(std::move(logits)));
    return run(executor, rows_of(1, 1, OutputKind::score, target));
  };
  EXPECT_FLOAT_EQ(score(flat(), 3).scores[0][0], -std::log(97.0F));
  EXPECT_FLOAT_EQ(score(flat(3e38F), 3).scores[0][0], -std::log(97.0F));
  EXPECT_FLOAT_EQ(score(flat(-3e38F), 3).scores[0][0], -std::log(97.0F));
  std::vector<float> logits = flat(-inf);
  logits[5] = 2.0F;
  EXPECT_EQ(score(logits, 5).scores[0][0], 0.0F);
  EXPECT_EQ(score(logits, 6).scores[0][0], -inf);
  logits[5] = logits[7] = inf;
  EXPECT_FLOAT_EQ(score(logits, 7).scores[0][0], -std::log(2.0F));
  EXPECT_EQ(score(logits, 8).scores[0][0], -inf);
  logits = flat();
  logits[4] = 1000.0F;
  EXPECT_FLOAT_EQ(score(logits, 3).scores[0][0], -1000.0F);
  const StepResult nothing = score(flat(-inf), 3);
  EXPECT_EQ(nothing.status[0], RowStatus::failed);
  EXPECT_THAT(nothing.errors[0], HasSubstr("no logit is above -infinity"));
  EXPECT_THAT(nothing.scores[0], IsEmpty());
}

TEST(DeferredExecutor, ErrorsOfARowSayWhereAndWhat) {
  std::vector<float> logits = flat();
  logits[17] = std::nanf("");
  Scripted executor(always(logits));
  StepBatch batch = rows_of(1, 4, OutputKind::token);
  EXPECT_EQ(run(executor, batch).errors[0], "output 0 (token) at position 3, step 0: logit 17 is NaN");
  batch.outputs[0].kind = OutputKind::logits;
  EXPECT_EQ(run(executor, batch).errors[0], "output 0 (logits) at position 3, step 0: logit 17 is NaN");
}

TEST(DeferredExecutor, HiddenNaNsFailToo) {
  Scripted executor([](const StepWork& /*work*/, HeadConsumer& head) {
    std::vector<float> hidden(kConfig.hidden_size, 0.0F);
    head.take_hidden(0, hidden);
    hidden[2] = std::nanf("");
    head.take_hidden(1, hidden);
  });
  const StepResult result = run(executor, rows_of(2, 1, OutputKind::hidden));
  EXPECT_THAT(result.status, ElementsAre(RowStatus::ok, RowStatus::failed));
  EXPECT_THAT(result.errors[1], HasSubstr("hidden state 2 is NaN"));
  EXPECT_THAT(result.values[1], IsEmpty());
}

// The first NaN of a row ends it: nothing more is asked of the backend for it.
TEST(DeferredExecutor, FailedRowsWantNothingMore) {
  std::vector<bool> wanted;
  Scripted executor([&](const StepWork& work, HeadConsumer& head) {
    const std::vector<float> hidden(kConfig.hidden_size, 0.0F);
    for (std::uint32_t row = 0; row < work.plan.head_tokens.size(); ++row) {
      head.take_hidden(row, hidden);
      wanted.push_back(head.wants_logits(row));
      head.take_logits(row, flat(row == 1 ? std::nanf("") : 0.0F));  // also where nobody wants them
    }
  });
  StepBatch batch;
  batch.add_row(std::vector<TokenInput>(4, TokenInput::of(1)), 0, {0});
  for (std::uint32_t i = 0; i < 4; ++i) batch.add_output_at(i, OutputKind::token);
  const StepResult result = run(executor, batch);
  EXPECT_THAT(wanted, ElementsAre(true, true, false, false));
  EXPECT_EQ(result.status[0], RowStatus::failed);
  EXPECT_EQ(result.ids[0].size(), 1U) << "what came before stays";
  EXPECT_THAT(result.ids[2], IsEmpty());
}

TEST(DeferredExecutor, ErrorsOfABackendFailTheRunningRows) {
  int steps = 0;
  Scripted executor([&](const StepWork& work, HeadConsumer& head) {
    if (++steps == 2) throw std::runtime_error("the fan stands still");
    always(flat())(work, head);
  });
  SubmitOptions options;
  options.max_steps = 4;
  options.stop_ids = {.ids = {0}, .row_offsets = {0, 1, 1}};  // row 0 stops at once
  const StepResult result = run(executor, rows_of(2, 1, OutputKind::token), options);
  EXPECT_THAT(result.status, ElementsAre(RowStatus::stopped, RowStatus::failed));
  EXPECT_EQ(result.errors[1], "step 1: the fan stands still");
  EXPECT_THAT(result.ids[1], ElementsAre(0));
  EXPECT_EQ(result.steps, 1U);
  EXPECT_EQ(run(executor, rows_of(1, 1, OutputKind::token)).status[0], RowStatus::ok) << "the queue goes on";
}

TEST(DeferredExecutor, HeadsOutOfOrderAreErrors) {
  const std::vector<float> hidden(kConfig.hidden_size, 0.0F);
  const auto error = [&](Scripted::Step step) {
    Scripted executor(std::move(step));
    return run(executor, rows_of(2, 1, OutputKind::token)).errors[0];
  };
  EXPECT_THAT(error([](const StepWork&, HeadConsumer&) {}), HasSubstr("0 of 2 head rows"));
  EXPECT_THAT(error([&](const StepWork&, HeadConsumer& head) { head.take_hidden(1, hidden); }),
              HasSubstr("head row 1"));
  EXPECT_THAT(error([&](const StepWork&, HeadConsumer& head) { head.take_logits(0, flat()); }),
              HasSubstr("before its hidden state"));
  EXPECT_THAT(error([&](const StepWork&, HeadConsumer& head) {
                head.take_hidden(0, hidden);
                head.take_hidden(1, hidden);
              }),
              HasSubstr("expected the logits of head row 0"));
  EXPECT_THAT(error([&](const StepWork&, HeadConsumer& head) {
                head.take_hidden(0, hidden);
                head.take_logits(0, flat());
                head.take_hidden(1, hidden);
              }),
              HasSubstr("the last without logits"));
}

class ThrowingSink : public OutputSink {
 public:
  void take(std::uint32_t /*output*/, std::uint32_t step, std::span<const float> /*values*/) override {
    if (step == 2) throw std::runtime_error("disk full");
  }
};

TEST(DeferredExecutor, ExceptionsOfASinkFailTheRunningRows) {
  toy::ToyExecutor executor(kConfig);
  executor.reserve(roomy());
  ThrowingSink sink;
  SubmitOptions options;
  options.sink = &sink;
  options.max_steps = 5;
  StepBatch batch = rows_of(1, 3, OutputKind::token);
  batch.add_output(OutputKind::logits);
  const StepResult result = run(executor, batch, options);
  EXPECT_EQ(result.status[0], RowStatus::failed);
  EXPECT_EQ(result.errors[0], "step 2: disk full");
  EXPECT_EQ(result.steps, 2U);
}

class MeddlingSink : public OutputSink {
 public:
  explicit MeddlingSink(std::function<void()> meddle) : meddle_(std::move(meddle)) {}
  void take(std::uint32_t /*output*/, std::uint32_t /*step*/, std::span<const float> /*values*/) override {
    meddle_();
  }

 private:
  std::function<void()> meddle_;
};

TEST(DeferredExecutor, CallbacksMayOnlyCancel) {
  toy::ToyExecutor executor(kConfig);
  executor.reserve(roomy());
  const StepBatch batch = rows_of(1, 3, OutputKind::logits);
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
      {"submit", [&] { executor.submit(batch, {}); }},
      {"wait", [&] { executor.wait(1); }},
      {"poll", [&] { executor.poll(1); }},
      {"set_slot", [&] { executor.set_slot(0, {}); }},
      {"reserve", [&] { executor.reserve(roomy()); }},
      {"copy_blocks", [&] { executor.copy_blocks({}); }},
      {"export_blocks", [&] { executor.export_blocks({}); }},
      {"import_blocks", [&] { executor.import_blocks({}, {}); }}};
  for (const auto& [name, call] : calls) {
    MeddlingSink sink(call);
    SubmitOptions options;
    options.sink = &sink;
    const StepResult result = run(executor, batch, options);
    EXPECT_EQ(result.status[0], RowStatus::failed) << name;
    EXPECT_THAT(result.errors[0], AllOf(HasSubstr(name), HasSubstr("from inside a sink")));
  }
  EXPECT_EQ(run(executor, batch).status[0], RowStatus::ok);
}

// Exact times would make a flaky test; ten times the expected few microseconds would not go unnoticed.
TEST(DeferredExecutor, AStepCostsLittle) {
  Scripted executor(always(flat()));
  StepBatch batch;
  batch.add_row({TokenInput::of(1)}, 100, {0, 1, 2, 3, 4, 5, 6, 7});
  batch.add_output(OutputKind::token);
  SubmitOptions options;
  options.stop_ids.ids = {5, 6};
  double best = 1e9;
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) executor.wait(executor.submit(batch, options));
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count() / 100);
  }
  RecordProperty("microseconds_per_step", std::to_string(best));
  EXPECT_LT(best, 100.0);
}

}  // namespace
}  // namespace inferno
