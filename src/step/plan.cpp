#include "step/plan.hpp"

namespace inferno {
namespace {

void clear(StepPlan& plan) {
  plan.rows.clear();
  plan.positions.clear();
  plan.cache_slots.clear();
  plan.row_of_token.clear();
  plan.head_tokens.clear();
  plan.outputs.clear();
  plan.needs_lm_head = false;
}

// Appends `count` tokens of batch row `row` from `first_position` on as a row of the step.
void add_row(const StepBatch& batch, const Limits& limits, std::uint32_t row, std::uint32_t first_position,
             std::uint32_t count, StepPlan& plan) {
  const auto first_token = static_cast<std::uint32_t>(plan.positions.size());
  const auto plan_row = static_cast<std::uint32_t>(plan.rows.size());
  const std::uint32_t last_position = first_position + count - 1;
  plan.rows.push_back({row, first_token, count, first_position, last_position / kSplitPositions + 1});
  const std::uint32_t* table = batch.blocks.data() + batch.block_offsets[row];
  for (std::uint32_t position = first_position; position <= last_position; ++position) {
    plan.positions.push_back(position);
    plan.cache_slots.push_back({table[position / limits.block_size], position % limits.block_size});
    plan.row_of_token.push_back(plan_row);
  }
}

// `token` is an index into the step's tokens; outputs come ascending.
void add_output(const StepBatch& batch, std::uint32_t output, std::uint32_t token, std::uint32_t row,
                StepPlan& plan) {
  if (plan.head_tokens.empty() || plan.head_tokens.back() != token) plan.head_tokens.push_back(token);
  plan.outputs.push_back({output, static_cast<std::uint32_t>(plan.head_tokens.size() - 1), row});
  if (batch.outputs[output].kind != OutputKind::hidden) plan.needs_lm_head = true;
}

}  // namespace

void plan_first_step(const StepBatch& batch, const Limits& limits, const std::vector<bool>& runs,
                     StepPlan& plan) {
  clear(plan);
  std::uint32_t output = 0;
  const auto outputs = static_cast<std::uint32_t>(batch.outputs.size());
  for (std::uint32_t row = 0; row < batch.rows(); ++row) {
    const std::uint32_t begin = batch.row_offsets[row];
    const std::uint32_t end = batch.row_offsets[row + 1];
    const auto first_token = static_cast<std::uint32_t>(plan.positions.size());
    if (runs[row]) add_row(batch, limits, row, batch.positions[begin], end - begin, plan);
    for (; output < outputs && batch.outputs[output].token < end; ++output) {
      if (runs[row]) add_output(batch, output, first_token + batch.outputs[output].token - begin, row, plan);
    }
  }
}

void plan_chained_step(const StepBatch& batch, const Limits& limits, std::uint32_t step,
                       const std::vector<bool>& runs, StepPlan& plan) {
  clear(plan);
  std::uint32_t output = 0;
  const auto outputs = static_cast<std::uint32_t>(batch.outputs.size());
  for (std::uint32_t row = 0; row < batch.rows(); ++row) {
    const std::uint32_t last = batch.row_offsets[row + 1] - 1;
    const auto token = static_cast<std::uint32_t>(plan.positions.size());
    if (runs[row]) add_row(batch, limits, row, batch.positions[last] + step, 1, plan);
    for (; output < outputs && batch.outputs[output].token <= last; ++output) {
      const Output& wanted = batch.outputs[output];
      const bool repeated = wanted.token == last && wanted.kind != OutputKind::score;
      if (runs[row] && repeated) add_output(batch, output, token, row, plan);
    }
  }
}

StepPlan plan_first_step(const StepBatch& batch, const Limits& limits, const std::vector<bool>& runs) {
  StepPlan plan;
  plan_first_step(batch, limits, runs, plan);
  return plan;
}

StepPlan plan_chained_step(const StepBatch& batch, const Limits& limits, std::uint32_t step,
                           const std::vector<bool>& runs) {
  StepPlan plan;
  plan_chained_step(batch, limits, step, runs, plan);
  return plan;
}

}  // namespace inferno
