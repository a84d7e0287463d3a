#include "step/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <inferno/error.hpp>

#include "step/result.hpp"

namespace inferno {
namespace {

using testing::ElementsAre;

TEST(StepBatch, RowsAreFlatArrays) {
  StepBatch batch;
  EXPECT_EQ(batch.rows(), 0U);
  EXPECT_EQ(batch.add_row({TokenInput::of(5), TokenInput::from(3, 1)}, 7, {4, 9}), 0U);
  EXPECT_EQ(batch.add_output(OutputKind::token), 0U);
  EXPECT_EQ(batch.add_row({TokenInput::of(6), TokenInput::of(7), TokenInput::of(8)}, 0, {2}, 11), 1U);
  EXPECT_EQ(batch.add_output_at(1, OutputKind::score, 42), 1U);
  EXPECT_EQ(batch.add_output_at(1, OutputKind::hidden), 2U);
  EXPECT_EQ(batch.add_output(OutputKind::logits), 3U);
  EXPECT_EQ(batch.rows(), 2U);
  EXPECT_THAT(batch.row_offsets, ElementsAre(0, 2, 5));
  EXPECT_THAT(batch.positions, ElementsAre(7, 8, 0, 1, 2));
  EXPECT_THAT(batch.blocks, ElementsAre(4, 9, 2));
  EXPECT_THAT(batch.block_offsets, ElementsAre(0, 2, 3));
  EXPECT_THAT(batch.slots, ElementsAre(kGreedySlot, 11));
  EXPECT_EQ(batch.tokens[1].ticket, 3U);
  EXPECT_EQ(batch.tokens[1].output, 1U);
  EXPECT_EQ(batch.tokens[2].id, 6);
  EXPECT_EQ(batch.outputs[0].token, 1U);
  EXPECT_EQ(batch.outputs[1].token, 3U);
  EXPECT_EQ(batch.outputs[1].target, 42);
  EXPECT_EQ(batch.outputs[3].token, 4U);
  batch.clear();
  EXPECT_EQ(batch.rows(), 0U);
  EXPECT_TRUE(batch.outputs.empty());
  EXPECT_EQ(batch.add_row({TokenInput::of(1)}, 0, {0}), 0U);
  EXPECT_THAT(batch.row_offsets, ElementsAre(0, 1));
}

TEST(StepBatch, OutputsNeedTheirTokenAndAscend) {
  StepBatch batch;
  EXPECT_THROW(batch.add_output(OutputKind::token), UsageError);
  EXPECT_THROW(batch.add_output_at(0, OutputKind::token), UsageError);
  batch.add_row({}, 0, {});
  EXPECT_THROW(batch.add_output(OutputKind::token), UsageError);
  batch.clear();
  batch.add_row({TokenInput::of(1), TokenInput::of(2)}, 0, {0});
  EXPECT_THROW(batch.add_output_at(2, OutputKind::token), UsageError);
  batch.add_output(OutputKind::token);
  EXPECT_THROW(batch.add_output_at(0, OutputKind::token), UsageError);
  EXPECT_EQ(batch.outputs.size(), 1U);
}

TEST(StopIds, HoldForAllRowsOrForEach) {
  const StopIds all{.ids = {3, 5}, .row_offsets = {}};
  EXPECT_TRUE(all.stops(0, 5));
  EXPECT_TRUE(all.stops(17, 3));
  EXPECT_FALSE(all.stops(0, 4));
  const StopIds each{.ids = {3, 5, 7}, .row_offsets = {0, 1, 1, 3}};
  EXPECT_TRUE(each.stops(0, 3));
  EXPECT_FALSE(each.stops(0, 5));
  EXPECT_FALSE(each.stops(1, 3));
  EXPECT_TRUE(each.stops(2, 5));
  EXPECT_TRUE(each.stops(2, 7));
  EXPECT_FALSE(each.stops(2, 3));
  EXPECT_FALSE(StopIds{}.stops(0, 0));
}

TEST(RowStatus, HasNames) {
  EXPECT_EQ(row_status_name(RowStatus::ok), "ok");
  EXPECT_EQ(row_status_name(RowStatus::stopped), "stopped");
  EXPECT_EQ(row_status_name(RowStatus::skipped), "skipped");
  EXPECT_EQ(row_status_name(RowStatus::cancelled), "cancelled");
  EXPECT_EQ(row_status_name(RowStatus::failed), "failed");
}

}  // namespace
}  // namespace inferno
