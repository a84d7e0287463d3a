// Watching the stages of a step.

#include <map>

#include "conformance/conformance.hpp"

namespace inferno::conformance {
namespace {

struct Seen {
  int layer;
  Stage stage;
  bool operator==(const Seen& other) const { return layer == other.layer && stage == other.stage; }
};

std::ostream& operator<<(std::ostream& stream, const Seen& seen) {
  return stream << seen.layer << ':' << stage_name(seen.stage);
}

class Recorder : public StageObserver {
 public:
  explicit Recorder(bool with_values = false) : with_values_(with_values) {}
  void begin(const StageEvent& event) override {
    EXPECT_FALSE(open_) << "stages do not nest";
    open_ = true;
    begun.push_back({event.layer, event.stage});
  }
  void end(const StageEvent& event) override {
    EXPECT_TRUE(open_);
    open_ = false;
    EXPECT_EQ(begun.back(), (Seen{event.layer, event.stage}));
    bytes += event.bytes;
    operations += event.operations;
  }
  bool wants_values() const override { return with_values_; }
  void values(const StageEvent& event, std::span<const float> values, std::size_t width) override {
    EXPECT_TRUE(with_values_) << "values for nobody";
    if (values.empty()) return;
    ASSERT_NE(width, 0U);
    EXPECT_EQ(values.size() % width, 0U);
    shapes[{event.layer, event.stage}].first += values.size() / width;
    shapes[{event.layer, event.stage}].second = width;
    if (event.stage == Stage::argmax) ids.insert(ids.end(), values.begin(), values.end());
  }

  std::vector<Seen> begun;
  std::map<std::pair<int, Stage>, std::pair<std::size_t, std::size_t>> shapes;  // rows, width
  std::vector<float> ids;
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;

 private:
  bool with_values_;
  bool open_ = false;
};

std::vector<Seen> stages_of_layers(std::uint32_t layers) {
  std::vector<Seen> stages = {{-1, Stage::embedding}};
  for (int layer = 0; layer < static_cast<int>(layers); ++layer) {
    for (int i = 0; i < kStagesPerLayer; ++i) {
      stages.push_back({layer, static_cast<Stage>(static_cast<int>(Stage::attention_norm) + i)});
    }
  }
  return stages;
}

}  // namespace

TEST_P(Conformance, EveryStageOnceInOrder) {
  INFERNO_NEEDS(observation, "observation");
  std::vector<Seen> expected = stages_of_layers(config().layers);
  for (const Stage stage : {Stage::final_norm, Stage::lm_head, Stage::argmax})
    expected.push_back({-1, stage});
  ASSERT_EQ(expected.size(),
            static_cast<std::size_t>(stages_per_step(static_cast<int>(config().layers)) + 1));
  for (const std::uint32_t rows : {1U, 5U}) {
    for (const std::uint32_t tokens : {1U, 40U}) {
      StepBatch batch;
      for (std::uint32_t row = 0; row < rows; ++row) {
        batch.add_row(inputs(prompt(300 + row, tokens)), 0, block_run(row * 3, 3));
        for (std::uint32_t i = 0; i < tokens; ++i) batch.add_output_at(i, OutputKind::token);
      }
      Recorder recorder;
      SubmitOptions options;
      options.observer = &recorder;
      executor().wait(executor().submit(batch, options));
      EXPECT_EQ(recorder.begun, expected) << rows << " rows of " << tokens << " tokens";
      EXPECT_GT(recorder.bytes, 0U);
      EXPECT_GT(recorder.operations, 0U);
    }
  }
}

TEST_P(Conformance, EveryStageOncePerChainedStep) {
  INFERNO_NEEDS(observation, "observation");
  INFERNO_NEEDS(multi_step, "chained steps");
  const Turn turn = turn_at(2, 6);
  StepBatch batch;
  batch.add_row(inputs(turn.prompt), 0, block_run(0, 2));
  batch.add_output(OutputKind::token);
  Recorder recorder;
  SubmitOptions options;
  options.observer = &recorder;
  options.max_steps = 6;
  options.stop_ids.ids = {turn.id()};
  EXPECT_EQ(executor().wait(executor().submit(batch, options)).steps, 3U);
  const auto per_step = static_cast<std::size_t>(stages_per_step(static_cast<int>(config().layers)) + 1);
  ASSERT_EQ(recorder.begun.size(), 3 * per_step) << "steps that were not needed were not run";
  for (std::size_t i = per_step; i < recorder.begun.size(); ++i) {
    EXPECT_EQ(recorder.begun[i], recorder.begun[i - per_step]);
  }
}

TEST_P(Conformance, StagesThatAreNotNeededAreNotAnnounced) {
  INFERNO_NEEDS(observation, "observation");
  const auto stages = [&](std::optional<OutputKind> kind) {
    StepBatch batch;
    batch.add_row(inputs(prompt(301, 9)), 0, block_run(0, 1));
    if (kind) batch.add_output(*kind, 1);
    Recorder recorder;
    SubmitOptions options;
    options.observer = &recorder;
    executor().wait(executor().submit(batch, options));
    return recorder.begun;
  };
  std::vector<Seen> expected = stages_of_layers(config().layers);
  EXPECT_EQ(stages({}), expected);
  expected.push_back({-1, Stage::final_norm});
  if (capabilities().hidden) {
    EXPECT_EQ(stages(OutputKind::hidden), expected);
  }
  expected.push_back({-1, Stage::lm_head});
  expected.push_back({-1, Stage::argmax});
  if (capabilities().logits) {
    EXPECT_EQ(stages(OutputKind::logits), expected);
  }
  if (capabilities().scores) {
    EXPECT_EQ(stages(OutputKind::score), expected);
  }
}

TEST_P(Conformance, ValuesHaveTheShapesOfTheirStages) {
  INFERNO_NEEDS(observation, "observation");
  StepBatch batch;
  batch.add_row(inputs(prompt(302, 30)), 0, block_run(0, 2));
  for (std::uint32_t i = 0; i < 25; ++i) batch.add_output_at(i, OutputKind::token);
  if (capabilities().hidden) batch.add_output(OutputKind::hidden);
  batch.add_row(inputs(prompt(303, 4)), 0, block_run(2, 1));
  batch.add_output(OutputKind::token);
  Recorder recorder(true);
  SubmitOptions options;
  options.observer = &recorder;
  const StepResult result = executor().wait(executor().submit(batch, options));

  const ModelConfig& shape = config();
  const std::map<Stage, std::size_t> widths = {{Stage::attention_norm, shape.hidden_size},
                                               {Stage::query, shape.query_width()},
                                               {Stage::key, shape.kv_width()},
                                               {Stage::value, shape.kv_width()},
                                               {Stage::query_norm, shape.query_width()},
                                               {Stage::key_norm, shape.kv_width()},
                                               {Stage::rope_query, shape.query_width()},
                                               {Stage::rope_key, shape.kv_width()},
                                               {Stage::attention, shape.query_width()},
                                               {Stage::attention_output, shape.hidden_size},
                                               {Stage::attention_residual, shape.hidden_size},
                                               {Stage::ffn_norm, shape.hidden_size},
                                               {Stage::gate, shape.ffn_size},
                                               {Stage::up, shape.ffn_size},
                                               {Stage::swiglu, shape.ffn_size},
                                               {Stage::down, shape.hidden_size},
                                               {Stage::ffn_residual, shape.hidden_size}};
  using Shape = std::pair<std::size_t, std::size_t>;
  for (int layer = 0; layer < static_cast<int>(shape.layers); ++layer) {
    for (const auto& [stage, width] : widths) {
      EXPECT_EQ((recorder.shapes[{layer, stage}]), Shape(34, width)) << layer << ' ' << stage_name(stage);
    }
    EXPECT_EQ(recorder.shapes.count({layer, Stage::append_kv}), 0U);
  }
  const std::size_t head_rows = capabilities().hidden ? 27 : 26;
  EXPECT_EQ((recorder.shapes[{-1, Stage::embedding}]), Shape(34, shape.hidden_size));
  EXPECT_EQ((recorder.shapes[{-1, Stage::final_norm}]), Shape(head_rows, shape.hidden_size));
  EXPECT_EQ((recorder.shapes[{-1, Stage::lm_head}]), Shape(26, shape.vocab_size));
  EXPECT_EQ((recorder.shapes[{-1, Stage::argmax}]), Shape(26, 1));
  Ids chosen;
  for (const auto& ids : result.ids) chosen.insert(chosen.end(), ids.begin(), ids.end());
  EXPECT_EQ(Ids(recorder.ids.begin(), recorder.ids.end()), chosen);
}

TEST_P(Conformance, ObservingChangesNoBits) {
  INFERNO_NEEDS(observation, "observation");
  const bool with_logits = capabilities().logits;
  const auto run = [&](StageObserver* observer) {
    StepBatch batch;
    for (std::uint32_t row = 0; row < 3; ++row) {
      batch.add_row(inputs(prompt(304 + row, 1 + 13 * row)), 0, block_run(row * 3, 3));
      batch.add_output(OutputKind::token);
      if (with_logits) batch.add_output(OutputKind::logits);
    }
    SubmitOptions options;
    options.observer = observer;
    options.max_steps = capabilities().multi_step ? 5 : 1;
    return executor().wait(executor().submit(batch, options));
  };
  const StepResult expected = run(nullptr);
  for (const bool with_values : {false, true}) {
    Recorder recorder(with_values);
    const StepResult result = run(&recorder);
    EXPECT_EQ(result.ids, expected.ids);
    for (std::size_t i = 0; i < result.values.size(); ++i)
      EXPECT_TRUE(same_bits(result.values[i], expected.values[i]));
  }
}

}  // namespace inferno::conformance
