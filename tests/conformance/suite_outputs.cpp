// What can be asked of a token, and what becomes of a row.

#include <algorithm>
#include <cmath>

#include "conformance/conformance.hpp"
#include "sampling/sampler.hpp"

namespace inferno::conformance {
namespace {

struct Taken {
  std::uint32_t output;
  std::uint32_t step;
  std::vector<float> values;
};

class Collector : public OutputSink {
 public:
  void take(std::uint32_t output, std::uint32_t step, std::span<const float> values) override {
    taken.push_back({output, step, {values.begin(), values.end()}});
  }
  std::vector<Taken> taken;
};

double log_softmax(const std::vector<float>& logits, std::size_t target) {
  double largest = static_cast<double>(logits[0]);
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return static_cast<double>(logits[target]) - largest - std::log(sum);
}

}  // namespace

TEST_P(Conformance, ResultsHaveTheirShape) {
  StepBatch batch;
  batch.add_row(inputs(prompt(140, 5)), 0, block_run(0, 1));
  batch.add_row(inputs(prompt(141, 3)), 0, block_run(1, 1));
  batch.add_output(OutputKind::token);
  const StepResult result = executor().wait(executor().submit(batch));
  EXPECT_EQ(result.steps, 1U);
  ASSERT_EQ(result.status.size(), 2U);
  ASSERT_EQ(result.errors.size(), 2U);
  ASSERT_EQ(result.ids.size(), 1U);
  ASSERT_EQ(result.scores.size(), 1U);
  ASSERT_EQ(result.values.size(), 1U);
  EXPECT_EQ(result.status[0], RowStatus::ok);
  EXPECT_EQ(result.status[1], RowStatus::ok);
  EXPECT_TRUE(result.errors[0].empty());
  EXPECT_EQ(result.ids[0].size(), 1U);
  EXPECT_TRUE(result.scores[0].empty());
  EXPECT_TRUE(result.values[0].empty());
}

TEST_P(Conformance, NothingNeedBeAsked) {
  StepBatch batch;
  batch.add_row(inputs(prompt(142, 40)), 0, block_run(0, 3));
  const StepResult result = executor().wait(executor().submit(batch));
  EXPECT_EQ(result.status[0], RowStatus::ok);
  EXPECT_EQ(result.steps, 1U);
  EXPECT_TRUE(result.ids.empty());
}

TEST_P(Conformance, TokensAreTheArgmaxOfLogits) {
  INFERNO_NEEDS(logits, "logits");
  StepBatch batch;
  batch.add_row(inputs(prompt(143, 30)), 0, block_run(0, 2));
  for (std::uint32_t i = 0; i < 30; ++i) {
    batch.add_output_at(i, OutputKind::logits);
    batch.add_output_at(i, OutputKind::token);
  }
  const StepResult result = executor().wait(executor().submit(batch));
  for (std::size_t i = 0; i < 30; ++i) {
    const Choice best = argmax(result.values[2 * i]);
    EXPECT_EQ(result.ids[2 * i + 1], Ids{best.id}) << "token " << i << ' ' << best.error;
  }
}

TEST_P(Conformance, ScoresAreLogSoftmaxOfLogits) {
  INFERNO_NEEDS(logits, "logits");
  INFERNO_NEEDS(scores, "scores");
  const auto last = static_cast<std::int32_t>(vocab_size() - 1);
  const Ids ids = prompt(144, 20);
  StepBatch batch;
  batch.add_row(inputs(ids), 0, block_run(0, 2));
  for (std::uint32_t i = 0; i < 20; ++i) {
    const std::int32_t target = i == 0 ? 0 : i == 1 ? last : ids[(i + 1) % 20];
    batch.add_output_at(i, OutputKind::score, target);
    batch.add_output_at(i, OutputKind::logits);
  }
  const StepResult result = executor().wait(executor().submit(batch));
  for (std::size_t i = 0; i < 20; ++i) {
    const auto target = static_cast<std::size_t>(batch.outputs[2 * i].target);
    ASSERT_EQ(result.scores[2 * i].size(), 1U);
    EXPECT_NEAR(result.scores[2 * i][0], log_softmax(result.values[2 * i + 1], target), 1e-5);
    EXPECT_LE(result.scores[2 * i][0], 0.0F);
  }
}

// Scores ignore what a slot would do to the distribution.
TEST_P(Conformance, ScoresComeBeforeSamplingSettings) {
  INFERNO_NEEDS(scores, "scores");
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  const Ids ids = prompt(145, 12);
  const auto score = [&](std::uint32_t slot) {
    StepBatch batch;
    batch.add_row(inputs(ids), 0, block_run(0, 1), slot);
    batch.add_output(OutputKind::score, 3);
    return executor().wait(executor().submit(batch)).scores[0];
  };
  SlotState state;
  state.settings.temperature = 0.3F;
  state.settings.logit_bias = {{3, -100.0F}};
  state.settings.repetition_penalty = 2.0F;
  state.prompt = ids;
  executor().set_slot(0, state);
  EXPECT_TRUE(same_bits(score(0), score(kGreedySlot)));
}

TEST_P(Conformance, ScoresAndHiddenStatesDoNotDependOnCompany) {
  INFERNO_NEEDS(scores, "scores");
  INFERNO_NEEDS(hidden, "hidden states");
  const Ids ids = prompt(146, 24);
  const auto add = [&](StepBatch& batch, std::uint32_t block) {
    batch.add_row(inputs(ids), 0, block_run(block, 2));
    batch.add_output_at(7, OutputKind::hidden);
    batch.add_output_at(9, OutputKind::score, 5);
    batch.add_output(OutputKind::hidden);
  };
  StepBatch alone;
  add(alone, 0);
  const StepResult expected = executor().wait(executor().submit(alone));
  EXPECT_EQ(expected.values[0].size(), config().hidden_size);
  StepBatch together;
  for (std::uint32_t row = 0; row < 5; ++row) {
    if (row == 3) {
      add(together, 20);
    } else {
      together.add_row(inputs(prompt(150 + row, 4 + row)), 0, block_run(30 + row, 1));
      together.add_output(OutputKind::token);
    }
  }
  const StepResult result = executor().wait(executor().submit(together));
  EXPECT_TRUE(same_bits(result.values[3], expected.values[0]));
  EXPECT_TRUE(same_bits(result.scores[4], expected.scores[1]));
  EXPECT_TRUE(same_bits(result.values[5], expected.values[2]));

  // Nor on how the prompt was cut.
  feed(executor(), slice(ids, 0, 23), 0, block_run(40, 2), 5);
  StepBatch last;
  last.add_row({TokenInput::of(ids[23])}, 23, block_run(40, 2));
  last.add_output(OutputKind::hidden);
  EXPECT_TRUE(same_bits(executor().wait(executor().submit(last)).values[0], expected.values[2]));
}

TEST_P(Conformance, HiddenStatesAlone) {
  INFERNO_NEEDS(hidden, "hidden states");
  StepBatch batch;
  batch.add_row(inputs(prompt(147, 6)), 0, block_run(0, 1));
  for (std::uint32_t i = 0; i < 6; ++i) batch.add_output_at(i, OutputKind::hidden);
  const StepResult all = executor().wait(executor().submit(batch));
  for (std::size_t i = 0; i < 6; ++i) {
    ASSERT_EQ(all.values[i].size(), config().hidden_size);
    EXPECT_TRUE(std::none_of(all.values[i].begin(), all.values[i].end(),
                             [](float value) { return std::isnan(value); }));
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_FALSE(same_bits(all.values[i], all.values[j])) << i << " and " << j;
  }
}

// Every kind, some twice, at one token, in an order that makes hidden states wait for logits.
TEST_P(Conformance, ManyOutputsOfOneToken) {
  INFERNO_NEEDS(logits, "logits");
  INFERNO_NEEDS(scores, "scores");
  INFERNO_NEEDS(hidden, "hidden states");
  const Ids ids = prompt(148, 11);
  const auto run = [&](std::uint32_t at, const std::vector<Output>& wanted, OutputSink* sink) {
    StepBatch batch;
    batch.add_row(inputs(ids), 0, block_run(0, 1));
    for (const Output& output : wanted) batch.add_output_at(at, output.kind, output.target);
    SubmitOptions options;
    options.sink = sink;
    return executor().wait(executor().submit(batch, options));
  };
  const std::vector<Output> wanted = {{0, OutputKind::logits, -1}, {0, OutputKind::hidden, -1},
                                      {0, OutputKind::token, -1},  {0, OutputKind::score, 2},
                                      {0, OutputKind::hidden, -1}, {0, OutputKind::score, 3},
                                      {0, OutputKind::logits, -1}, {0, OutputKind::token, -1}};
  for (const std::uint32_t at : {0U, 5U, 10U}) {
    const StepResult together = run(at, wanted, nullptr);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const StepResult alone = run(at, {wanted[i]}, nullptr);
      EXPECT_EQ(together.ids[i], alone.ids[0]) << "output " << i;
      EXPECT_TRUE(same_bits(together.scores[i], alone.scores[0])) << "output " << i;
      EXPECT_TRUE(same_bits(together.values[i], alone.values[0])) << "output " << i;
    }
    Collector sink;
    const StepResult sunk = run(at, wanted, &sink);
    ASSERT_EQ(sink.taken.size(), 4U);
    std::size_t next = 0;
    for (const std::uint32_t output : {0U, 1U, 4U, 6U}) {
      EXPECT_EQ(sink.taken[next].output, output);
      EXPECT_TRUE(same_bits(sink.taken[next].values, together.values[output])) << "output " << output;
      EXPECT_TRUE(sunk.values[output].empty()) << "what a sink takes is not held";
      ++next;
    }
    EXPECT_EQ(sunk.ids, together.ids);
    EXPECT_EQ(sunk.scores, together.scores);
  }
}

// Order and values, over rows, tokens and steps, in more head rows than any backend takes in one piece.
TEST_P(Conformance, SinksTakeOutputsInOrder) {
  INFERNO_NEEDS(logits, "logits");
  INFERNO_NEEDS(hidden, "hidden states");
  const std::uint32_t steps = capabilities().multi_step ? 3 : 1;
  StepBatch batch;
  for (std::uint32_t row = 0; row < 3; ++row) {
    const std::uint32_t length = 50 + row;
    batch.add_row(inputs(prompt(160 + row, length)), 0, block_run(row * 5, 5));
    for (std::uint32_t i = 0; i < length; ++i) {
      batch.add_output_at(i, i % 3 == 0 ? OutputKind::hidden : OutputKind::logits);
      if (i % 5 == 0) batch.add_output_at(i, OutputKind::hidden);
    }
    batch.add_output(OutputKind::token);
  }
  Collector sink;
  SubmitOptions options;
  options.max_steps = steps;
  const StepResult held = executor().wait(executor().submit(batch, options));
  options.sink = &sink;
  const StepResult sunk = executor().wait(executor().submit(batch, options));
  EXPECT_EQ(sunk.ids, held.ids);
  std::vector<std::vector<float>> gathered(batch.outputs.size());
  std::uint64_t before = 0;
  for (const Taken& taken : sink.taken) {
    const std::uint64_t place = std::uint64_t{taken.step} * batch.outputs.size() + taken.output + 1;
    EXPECT_GT(place, before);
    before = place;
    gathered[taken.output].insert(gathered[taken.output].end(), taken.values.begin(), taken.values.end());
  }
  for (std::size_t i = 0; i < gathered.size(); ++i)
    EXPECT_TRUE(same_bits(gathered[i], held.values[i])) << "output " << i;
}

TEST_P(Conformance, AMaskThatAllowsNothingFailsItsRowAlone) {
  INFERNO_NEEDS(sampling_slots, "sampling slots");
  INFERNO_NEEDS(token_masks, "token masks");
  const Ids ids = prompt(149, 8);
  const Transcript expected = generate(executor(), ids, 4);
  SlotState nothing;
  nothing.allowed.assign((vocab_size() + 31) / 32, 0);
  executor().set_slot(3, nothing);
  const std::uint32_t steps = capabilities().multi_step ? 4 : 1;
  StepBatch batch;
  for (std::uint32_t row = 0; row < 3; ++row) {
    batch.add_row(inputs(ids), 0, block_run(row, 1), row == 1 ? 3 : kGreedySlot);
    batch.add_output(OutputKind::token);
  }
  const StepResult result = executor().wait(executor().submit(batch, {.max_steps = steps, .stop_ids = {}}));
  EXPECT_EQ(result.status[1], RowStatus::failed);
  EXPECT_FALSE(result.errors[1].empty());
  EXPECT_TRUE(result.ids[1].empty());
  for (const std::size_t row : {0U, 2U}) {
    EXPECT_EQ(result.status[row], RowStatus::ok);
    EXPECT_TRUE(result.errors[row].empty());
    EXPECT_EQ(result.ids[row], slice(expected.ids, 0, steps));
  }
  EXPECT_EQ(generate(executor(), ids, 4), expected) << "the executor is none the worse";
}

// Cache content of all ones holds NaNs in every format with floats or float scales.
TEST_P(Conformance, ANaNFailsItsRowAlone) {
  INFERNO_NEEDS(block_transfer, "block transfer");
  const Ids ids = prompt(151, 20);
  const Transcript expected = generate(executor(), ids, 2);
  for (std::uint32_t row = 0; row < 3; ++row) feed(executor(), slice(ids, 0, 19), 0, block_run(row * 2, 2));
  const Blocks spoilt = {2};
  std::vector<std::byte> bytes = executor().export_blocks(spoilt);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2), bytes.end(), std::byte{0xFF});
  executor().import_blocks(spoilt, bytes);

  std::vector<OutputKind> kinds = {OutputKind::token};
  if (capabilities().logits) kinds.push_back(OutputKind::logits);
  if (capabilities().scores) kinds.push_back(OutputKind::score);
  if (capabilities().hidden) kinds.push_back(OutputKind::hidden);
  for (const OutputKind kind : kinds) {
    StepBatch batch;
    for (std::uint32_t row = 0; row < 3; ++row) {
      batch.add_row({TokenInput::of(ids[19])}, 19, block_run(row * 2, 2));
      batch.add_output(kind, 1);
      if (kind != OutputKind::token) batch.add_output(OutputKind::token);
    }
    const std::size_t outputs = kind == OutputKind::token ? 1 : 2;
    Collector sink;
    SubmitOptions options;
    options.sink = &sink;
    const StepResult result = executor().wait(executor().submit(batch, options));
    EXPECT_EQ(result.status[1], RowStatus::failed);
    EXPECT_NE(result.errors[1].find("NaN"), std::string::npos) << result.errors[1];
    for (std::size_t i = 0; i < outputs; ++i)
      EXPECT_TRUE(result.ids[outputs + i].empty()) << "a NaN chose a token";
    for (const std::size_t row : {0U, 2U}) {
      EXPECT_EQ(result.status[row], RowStatus::ok) << result.errors[row];
      EXPECT_EQ(result.ids[row * outputs + outputs - 1], slice(expected.ids, 0, 1));
    }
    for (const Taken& taken : sink.taken) EXPECT_NE(taken.output / outputs, 1U) << "a sink was given NaNs";
  }
}

}  // namespace inferno::conformance
