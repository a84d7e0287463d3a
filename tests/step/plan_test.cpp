#include "step/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace inferno {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MATCHER_P2(IsSlot, block, offset, "") {
  return arg.block == static_cast<std::uint32_t>(block) && arg.offset == static_cast<std::uint32_t>(offset);
}

MATCHER_P3(IsOutput, output, head_row, row, "") {
  return arg.output == static_cast<std::uint32_t>(output) &&
         arg.head_row == static_cast<std::uint32_t>(head_row) && arg.row == static_cast<std::uint32_t>(row);
}

MATCHER_P5(IsRow, row, first_token, tokens, first_position, splits, "") {
  return arg.row == static_cast<std::uint32_t>(row) &&
         arg.first_token == static_cast<std::uint32_t>(first_token) &&
         arg.tokens == static_cast<std::uint32_t>(tokens) &&
         arg.first_position == static_cast<std::uint32_t>(first_position) &&
         arg.splits == static_cast<std::uint32_t>(splits);
}

std::vector<TokenInput> tokens(std::size_t count) {
  return std::vector<TokenInput>(count, TokenInput::of(1));
}

Limits limits_with(std::uint32_t block_size) {
  Limits limits;
  limits.block_size = block_size;
  limits.max_context = 2048;
  limits.blocks = 100;
  return limits;
}

// Row 0: 3 tokens across a block's end; row 1: one token at a split's end; row 2: one at the next split's
// start.
StepBatch three_rows() {
  StepBatch batch;
  batch.add_row(tokens(3), 15, {7, 4});
  batch.add_output_at(0, OutputKind::hidden);
  batch.add_output(OutputKind::token);
  batch.add_output(OutputKind::score, 2);
  std::vector<std::uint32_t> table(17);
  for (std::uint32_t i = 0; i < 17; ++i) table[i] = 50 + i;
  batch.add_row(tokens(1), 255, table);
  batch.add_output(OutputKind::token);
  for (auto& block : table) block -= 20;
  batch.add_row(tokens(1), 256, table);
  batch.add_output(OutputKind::token);
  batch.add_output(OutputKind::hidden);
  return batch;
}

TEST(Plan, FirstStepOfAllRows) {
  const StepPlan plan = plan_first_step(three_rows(), limits_with(16), {true, true, true});
  EXPECT_THAT(plan.rows, ElementsAre(IsRow(0, 0, 3, 15, 1), IsRow(1, 3, 1, 255, 1), IsRow(2, 4, 1, 256, 2)));
  EXPECT_THAT(plan.positions, ElementsAre(15, 16, 17, 255, 256));
  EXPECT_THAT(plan.cache_slots,
              ElementsAre(IsSlot(7, 15), IsSlot(4, 0), IsSlot(4, 1), IsSlot(65, 15), IsSlot(46, 0)));
  EXPECT_THAT(plan.row_of_token, ElementsAre(0, 0, 0, 1, 2));
  EXPECT_THAT(plan.head_tokens, ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(plan.outputs, ElementsAre(IsOutput(0, 0, 0), IsOutput(1, 1, 0), IsOutput(2, 1, 0),
                                        IsOutput(3, 2, 1), IsOutput(4, 3, 2), IsOutput(5, 3, 2)));
  EXPECT_TRUE(plan.needs_lm_head);
}

TEST(Plan, RowsThatDoNotRunLeaveNoTrace) {
  const StepPlan plan = plan_first_step(three_rows(), limits_with(16), {false, true, false});
  EXPECT_THAT(plan.rows, ElementsAre(IsRow(1, 0, 1, 255, 1)));
  EXPECT_THAT(plan.positions, ElementsAre(255));
  EXPECT_THAT(plan.row_of_token, ElementsAre(0));
  EXPECT_THAT(plan.head_tokens, ElementsAre(0));
  EXPECT_THAT(plan.outputs, ElementsAre(IsOutput(3, 0, 1)));

  const StepPlan last = plan_first_step(three_rows(), limits_with(16), {true, false, true});
  EXPECT_THAT(last.rows, ElementsAre(IsRow(0, 0, 3, 15, 1), IsRow(2, 3, 1, 256, 2)));
  EXPECT_THAT(last.row_of_token, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(last.head_tokens, ElementsAre(0, 2, 3));
  const StepPlan nothing = plan_first_step(three_rows(), limits_with(16), {false, false, false});
  EXPECT_THAT(nothing.rows, IsEmpty());
  EXPECT_THAT(nothing.outputs, IsEmpty());
  EXPECT_FALSE(nothing.needs_lm_head);
}

TEST(Plan, ChainedStepsTakeOneTokenARow) {
  std::vector<std::uint32_t> table(17);
  const StepBatch batch = three_rows();
  const StepPlan plan = plan_chained_step(batch, limits_with(16), 1, {true, false, true});
  EXPECT_THAT(plan.rows, ElementsAre(IsRow(0, 0, 1, 18, 1), IsRow(2, 1, 1, 257, 2)));
  EXPECT_THAT(plan.positions, ElementsAre(18, 257));
  EXPECT_THAT(plan.cache_slots, ElementsAre(IsSlot(4, 2), IsSlot(46, 1)));
  EXPECT_THAT(plan.head_tokens, ElementsAre(0, 1));
  EXPECT_THAT(plan.outputs, ElementsAre(IsOutput(1, 0, 0), IsOutput(4, 1, 2), IsOutput(5, 1, 2)))
      << "no score, nothing of earlier tokens";
  const StepPlan later = plan_chained_step(batch, limits_with(16), 14, {true, false, false});
  EXPECT_THAT(later.positions, ElementsAre(31));
  EXPECT_THAT(later.cache_slots, ElementsAre(IsSlot(4, 15)));
}

TEST(Plan, HiddenStatesNeedNoHead) {
  StepBatch batch;
  batch.add_row(tokens(2), 0, {0});
  batch.add_output(OutputKind::hidden);
  EXPECT_FALSE(plan_first_step(batch, limits_with(16), {true}).needs_lm_head);
  batch.add_output(OutputKind::score, 0);
  EXPECT_TRUE(plan_first_step(batch, limits_with(16), {true}).needs_lm_head);
}

TEST(Plan, SplitsDoNotDependOnBlocks) {
  for (const std::uint32_t size : {1U, 8U, 64U, 256U}) {
    for (const std::uint32_t last : {0U, 254U, 255U, 256U, 511U, 512U, 1000U}) {
      StepBatch batch;
      std::vector<std::uint32_t> table(last / size + 1, 3);
      batch.add_row(tokens(1), last, table);
      const StepPlan plan = plan_first_step(batch, limits_with(size), {true});
      EXPECT_EQ(plan.rows[0].splits, last / 256 + 1) << last;
      EXPECT_THAT(plan.cache_slots, ElementsAre(IsSlot(3, last % size)));
    }
  }
}

TEST(Plan, PlansAreUsedAgain) {
  StepPlan plan;
  plan_first_step(three_rows(), limits_with(16), {true, true, true}, plan);
  const std::uint32_t* positions = plan.positions.data();
  plan_chained_step(three_rows(), limits_with(16), 1, {true, true, true}, plan);
  EXPECT_EQ(plan.positions.data(), positions) << "no memory was asked for";
  EXPECT_EQ(plan.rows.size(), 3U);
  StepBatch batch;
  batch.add_row(tokens(1), 0, {0});
  plan_first_step(batch, limits_with(16), {true}, plan);
  EXPECT_EQ(plan.positions.size(), 1U);
  EXPECT_THAT(plan.outputs, IsEmpty());
  EXPECT_FALSE(plan.needs_lm_head);
}

}  // namespace
}  // namespace inferno
