#include "engine/trace.hpp"

#include <gtest/gtest.h>

#include <inferno/engine.hpp>

#include "gguf/writer.hpp"
#include "model/config.hpp"
#include "support/temporary_folder.hpp"
#include "synth/preset.hpp"
#include "synth/synth.hpp"

namespace inferno {
namespace {

/// The real thing is 640 MB: here its layers, each as narrow as they can be, are what is counted.
TEST(Trace, AModelOfTheShapeOf06bRuns507StagesADecodeStep) {
  const auto& config = find_preset("0.6b").config;
  EXPECT_EQ(config.layers, 28U);
  EXPECT_EQ(stages_per_step(static_cast<int>(config.layers)), 507);
}

class TraceOf : public testing::TestWithParam<const char*> {};

TEST_P(TraceOf, CountsEighteenStagesALayerAndThreeMore) {
  EngineOptions options;
  options.backend = GetParam();
  Engine engine(Model::load(Model::default_path()), options);
  TraceObserver trace;
  engine.observe(&trace);
  const auto generation = engine.generate({.prompt = "Once upon a time", .max_tokens = 6});
  ASSERT_EQ(generation.ids.size(), 6U);
  const std::uint64_t layers = engine.model().layers();

  EXPECT_EQ(trace.prefill_steps(), 1U);
  EXPECT_EQ(trace.decode_steps(), 5U);
  EXPECT_EQ(trace.prefill().stages(), layers * 18 + 3);
  EXPECT_EQ(trace.decode().stages(), 5 * (layers * 18 + 3));
  for (int i = 0; i < kStageCount; ++i) {
    const auto stage = static_cast<Stage>(i);
    const bool per_layer = stage > Stage::embedding && stage < Stage::final_norm;
    EXPECT_EQ(trace.decode().of(stage).count, 5 * (per_layer ? layers : 1)) << stage_name(stage);
  }
  // A decode step reads the weights once: all of them but the embedding's table, which is the head here.
  EXPECT_GT(trace.decode().of(Stage::lm_head).bytes, 0U);
  EXPECT_GT(trace.decode().of(Stage::attention).bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(Backends, TraceOf, testing::Values("scalar", "reference", "simd", "pool"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace inferno
