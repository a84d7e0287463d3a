#include "model/stage.hpp"

#include <gtest/gtest.h>
#include <set>

namespace inferno {
namespace {

TEST(Stage, NamesAreDistinctAndInOrder) {
  std::set<std::string_view> names;
  for (int i = 0; i < kStageCount; ++i) names.insert(stage_name(static_cast<Stage>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kStageCount));
  EXPECT_EQ(stage_name(Stage::embedding), "embedding");
  EXPECT_EQ(stage_name(Stage::append_kv), "append_kv");
  EXPECT_EQ(stage_name(Stage::ffn_residual), "ffn_residual");
  EXPECT_EQ(stage_name(Stage::argmax), "argmax");
}

TEST(Stage, EighteenALayerAnd507For28Layers) {
  EXPECT_EQ(kStageCount, 1 + kStagesPerLayer + kStagesAtEnd);
  EXPECT_EQ(stages_per_step(28), 507);
}

}  // namespace
}  // namespace inferno
