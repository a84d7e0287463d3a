#include <gtest/gtest.h>
#include <map>
#include <vector>

#include "backend/runner.hpp"
#include "model/stage.hpp"
#include "support/random_model.hpp"

namespace inferno {
namespace {

using test::RandomModel;
using test::Runner;
using test::TemporaryFile;

/// Writes down what it sees.
class Recorder : public StageObserver {
 public:
  explicit Recorder(bool wants_values = false) : wants_values_(wants_values) {}
  void begin(const StageEvent& event) override { begun.push_back(event); }
  void end(const StageEvent& event) override { ended.push_back(event); }
  bool wants_values() const override { return wants_values_; }
  void values(const StageEvent& event, std::span<const float> values, std::size_t width) override {
    ASSERT_NE(width, 0U);
    shapes[event.stage] = {values.size() / width, width};
    last[event.stage].assign(values.begin(), values.end());
  }

  std::size_t after_embedding() const { return ended.size() - 1; }
  const StageEvent& event(Stage stage, int layer = -1) const {
    for (const auto& one : ended) {
      if (one.stage == stage && one.layer == layer) return one;
    }
    throw std::out_of_range("no such event");
  }

  std::vector<StageEvent> begun, ended;
  std::map<Stage, std::pair<std::size_t, std::size_t>> shapes;  // rows, width
  std::map<Stage, std::vector<float>> last;

 private:
  bool wants_values_;
};

/// Runs `ids` at `first_position` under an observer.
StepResult observe(Runner& runner, StageObserver& observer, std::vector<std::int32_t> ids,
                   std::uint32_t first_position, std::optional<OutputKind> output) {
  StepBatch batch;
  std::vector<TokenInput> tokens;
  for (const auto id : ids) tokens.push_back(TokenInput::of(id));
  batch.add_row(tokens, first_position, runner.blocks());
  if (output) batch.add_output(*output);
  SubmitOptions options;
  options.observer = &observer;
  return runner.executor().wait(runner.executor().submit(batch, options));
}

TEST(Stages, EighteenALayerAnd507ADecodeStepOf28Layers) {
  RandomModel model;
  model.layers = 28;
  const TemporaryFile file(model);
  const LoadedModel loaded(file.path());
  Runner runner(loaded);
  Recorder prefill;
  observe(runner, prefill, {1, 2, 3}, 0, OutputKind::token);
  Recorder decode;
  observe(runner, decode, {4}, 3, OutputKind::token);
  for (const Recorder* seen : {&prefill, &decode}) {
    EXPECT_EQ(seen->after_embedding(), 507U);
    EXPECT_EQ(seen->after_embedding(), static_cast<std::size_t>(stages_per_step(28)));
    ASSERT_EQ(seen->begun.size(), seen->ended.size());
    std::map<int, std::size_t> per_layer;
    for (const auto& event : seen->ended) ++per_layer[event.layer];
    for (int layer = 0; layer < 28; ++layer) EXPECT_EQ(per_layer[layer], 18U);
    EXPECT_EQ(per_layer[-1], 4U);
    // In the order of the enumeration, layer by layer.
    for (std::size_t i = 0; i < seen->begun.size(); ++i) {
      EXPECT_EQ(seen->begun[i].stage, seen->ended[i].stage);
      EXPECT_EQ(seen->begun[i].layer, seen->ended[i].layer);
      if (i == 0) continue;
      const auto& before = seen->begun[i - 1];
      const auto& now = seen->begun[i];
      const bool next_layer = before.stage == Stage::ffn_residual && now.stage == Stage::attention_norm;
      EXPECT_TRUE(next_layer || static_cast<int>(now.stage) == static_cast<int>(before.stage) + 1) << i;
    }
  }
}

TEST(Stages, AChunkThatNothingIsAskedOfHasNoHead) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  Runner runner(loaded);
  Recorder seen;
  observe(runner, seen, {1, 2, 3}, 0, std::nullopt);
  EXPECT_EQ(seen.after_embedding(), 2U * kStagesPerLayer);
}

TEST(Stages, BytesAreTheWeightsAndTheCacheThatAreRead) {
  RandomModel model;
  model.matrix_format = quant::TensorType::q8_0;
  model.embedding_format = quant::TensorType::f16;
  const TemporaryFile file(model);
  const LoadedModel loaded(file.path());
  Runner runner(loaded);
  Recorder prefill;
  observe(runner, prefill, {1, 2, 3, 4, 5}, 0, OutputKind::token);
  Recorder seen;
  observe(runner, seen, {6}, 5, OutputKind::token);
  EXPECT_EQ(seen.event(Stage::embedding).bytes, 64U * 2);  // one row, not the table
  EXPECT_EQ(prefill.event(Stage::embedding).bytes, 5 * 64U * 2);
  EXPECT_EQ(seen.event(Stage::query, 0).bytes, 128U * 64 / 32 * 34);
  EXPECT_EQ(seen.event(Stage::query, 0).operations, 2U * 128 * 64);
  EXPECT_EQ(prefill.event(Stage::query, 1).bytes, 128U * 64 / 32 * 34);  // once for all five tokens
  EXPECT_EQ(prefill.event(Stage::query, 1).operations, 5 * 2U * 128 * 64);
  EXPECT_EQ(seen.event(Stage::attention_norm, 0).bytes, 64U * 4);
  EXPECT_EQ(seen.event(Stage::attention, 1).bytes, 6U * 2 * 64 * 4);  // six positions' keys and values
  EXPECT_EQ(seen.event(Stage::attention, 1).operations, 6U * 4 * 128);
  EXPECT_EQ(prefill.event(Stage::attention, 1).operations, (1U + 2 + 3 + 4 + 5) * 4 * 128);
  EXPECT_EQ(seen.event(Stage::append_kv, 0).bytes, 0U);
  EXPECT_EQ(seen.event(Stage::lm_head).bytes, 100U * 64 * 2);
  EXPECT_EQ(seen.event(Stage::lm_head).operations, 2U * 100 * 64);
}

TEST(Stages, ValuesAreEachStagesResult) {
  RandomModel model;
  model.layers = 1;
  const TemporaryFile file(model);
  const LoadedModel loaded(file.path());
  Runner runner(loaded);
  Recorder seen(true);
  const auto result = observe(runner, seen, {1, 2, 3}, 0, OutputKind::logits);
  using Shape = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(seen.shapes.at(Stage::embedding), Shape(3, 64));
  EXPECT_EQ(seen.shapes.at(Stage::query), Shape(3, 128));
  EXPECT_EQ(seen.shapes.at(Stage::key_norm), Shape(3, 64));
  EXPECT_EQ(seen.shapes.at(Stage::rope_query), Shape(3, 128));
  EXPECT_EQ(seen.shapes.at(Stage::attention), Shape(3, 128));
  EXPECT_EQ(seen.shapes.at(Stage::swiglu), Shape(3, 96));
  EXPECT_EQ(seen.shapes.at(Stage::ffn_residual), Shape(3, 64));
  EXPECT_EQ(seen.shapes.at(Stage::final_norm), Shape(1, 64));
  EXPECT_EQ(seen.shapes.at(Stage::lm_head), Shape(1, 100));
  EXPECT_EQ(seen.shapes.count(Stage::append_kv), 0U);
  EXPECT_EQ(seen.last.at(Stage::lm_head), result.values.at(0));
  // The embedding's rows as the file holds them.
  const auto decoded = reinterpret_cast<const float*>(loaded.weights.embedding.row(2));
  EXPECT_EQ(std::vector<float>(decoded, decoded + 64),
            std::vector<float>(seen.last.at(Stage::embedding).begin() + 64,
                               seen.last.at(Stage::embedding).begin() + 128));
}

TEST(Stages, ObservingChangesNoBit) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  Runner watched(loaded);
  Recorder seen(true);
  const auto result = observe(watched, seen, {5, 6, 7}, 0, OutputKind::logits);
  const std::vector<std::int32_t> ids = {5, 6, 7};
  EXPECT_EQ(result.values.at(0), Runner(loaded).last_logits(ids, 3));
}

}  // namespace
}  // namespace inferno
