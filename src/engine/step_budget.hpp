#pragma once

#include <cstdint>

#include "engine/step_cost.hpp"

namespace inferno {

/// Prompt tokens of a step that is being formed: what is left for those who have not got theirs.
class PromptAllowance {
 public:
  /// How many of `wanted` tokens from position `first` on are allowed; they are taken from the allowance.
  /// `half`: of half the allowance, rounded up.
  std::uint32_t take(std::uint32_t first, std::uint32_t wanted, bool half = false);
  /// Nobody gets any more.
  bool empty() const { return tokens_ == 0; }

 private:
  friend class StepBudget;
  std::uint32_t tokens_ = 0;
  std::uint32_t least_ = 0;  // of those, given whatever they cost
  bool limited_ = false;     // whether what follows counts
  double microseconds_ = 0;
  double attended_ = 0;
  double per_token_ = 0;     // microseconds
  double per_position_ = 0;  // microseconds
};

/// How many prompt tokens may go with the decoding rows of a step, so that those who stream do not notice the
/// others' prompts. Learns from the steps that were run; has no influence on results, only on when they come.
class StepBudget {
 public:
  /// `step_tokens`: most tokens of a step. `stretch`: most that a step may last, in times of what its
  /// decoding rows alone need; 0: no limit.
  StepBudget(std::uint32_t step_tokens, double stretch) : step_tokens_(step_tokens), stretch_(stretch) {}

  /// `load`: of the decoding rows.
  PromptAllowance prompts(const StepLoad& load) const;
  void observe(const StepLoad& load, double microseconds);

  /// Fewer prompt tokens are never allowed, but for the first step of decoding rows, which is to tell what
  /// those cost: a promise to those who wait for their first token.
  static constexpr std::uint32_t kLeast = 4;

 private:
  std::uint32_t step_tokens_;
  double stretch_;
  StepCost cost_;
  bool rows_known_ = false;  // whether rows were run without prompts
  // How far the costs are trusted beyond the steps that they come from.
  double most_tokens_ = 0;
  double most_attended_ = 0;
};

}  // namespace inferno
