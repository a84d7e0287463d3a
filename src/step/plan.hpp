#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "step/batch.hpp"
#include "step/executor.hpp"

namespace inferno {

/// Positions per attention split: partial results are merged in ascending order of splits.
inline constexpr std::uint32_t kSplitPositions = 256;

/// One row of one model step.
struct RowPlan {
  std::uint32_t row = 0;             ///< index into the batch's rows
  std::uint32_t first_token = 0;     ///< index into the step's tokens (rows that do not run have none)
  std::uint32_t tokens = 0;          ///< new tokens of this step
  std::uint32_t first_position = 0;  ///< of its first new token
  std::uint32_t splits = 0;          ///< attention splits up to its last position
};

/// Where one token's key and value go.
struct CacheSlot {
  std::uint32_t block = 0;
  std::uint32_t offset = 0;  ///< position within the block
};

/// What an output needs: its row in the final-norm / LM-head batch.
struct OutputPlan {
  std::uint32_t output = 0;    ///< index into the batch's outputs
  std::uint32_t head_row = 0;  ///< index into StepPlan::head_tokens
  std::uint32_t row = 0;       ///< index into the batch's rows
};

/// One model step, ready to be executed: everything that can be computed from the batch on the host, once, by
/// code shared by all executors.
struct StepPlan {
  std::vector<RowPlan> rows;                ///< running rows, ascending
  std::vector<std::uint32_t> positions;     ///< [T] of this step
  std::vector<CacheSlot> cache_slots;       ///< [T]
  std::vector<std::uint32_t> row_of_token;  ///< [T], index into rows
  std::vector<std::uint32_t> head_tokens;   ///< distinct tokens that need the final norm, ascending, into [T]
  std::vector<OutputPlan> outputs;          ///< ascending
  bool needs_lm_head = false;               ///< any output but hidden
};

/// Checks a submission against the rules and limits of the seam, all but what references name (see
/// ReferenceMemory). Throws UsageError naming field, index, expected and found. Nothing of the submission is
/// trusted. `vocab_size` bounds ids and targets; `next_ticket` is the ticket the submission would get.
void check_submission(const StepBatch& batch, const SubmitOptions& options, const Limits& limits,
                      const Capabilities& capabilities, std::uint32_t vocab_size, Ticket next_ticket);

/// Throws UsageError if limits make no sense (zero, block_size not a divisor of 256, ...).
void check_limits(const Limits& limits);

/// Throws UsageError naming the index if one of `blocks` is not below `limits.blocks`; `what` names the list.
void check_blocks(std::span<const std::uint32_t> blocks, const Limits& limits, std::string_view what);

/// Plans step 0: all rows whose flag in `runs` [R] is set. The batch has passed check_submission.
StepPlan plan_first_step(const StepBatch& batch, const Limits& limits, const std::vector<bool>& runs);

/// Plans chained step `step` >= 1 for the rows whose flag in `runs` is set: one token each, at position
/// last + step, outputs those at the row's last token except scores.
StepPlan plan_chained_step(const StepBatch& batch, const Limits& limits, std::uint32_t step,
                           const std::vector<bool>& runs);

/// The same into a plan whose memory is used again: nothing is allocated in the steady state of decoding.
void plan_first_step(const StepBatch& batch, const Limits& limits, const std::vector<bool>& runs,
                     StepPlan& plan);
void plan_chained_step(const StepBatch& batch, const Limits& limits, std::uint32_t step,
                       const std::vector<bool>& runs, StepPlan& plan);

}  // namespace inferno
