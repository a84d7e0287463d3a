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
///
/// A step with prompts may last so many times what the rows alone usually need, not what these rows need:
/// when they need little (they stand at low positions) prompts get more, when they need much prompts get
/// less, and the tokens of a stream come as evenly as its own growing cost allows.
class StepBudget {
 public:
  /// `step_tokens`: most tokens of a step. `stretch`: most that a step may last, in times of what decoding
  /// rows alone needed in the last two seconds; 0: no limit. To rows that need more than usual prompts may
  /// add a tenth of the stretch.
  StepBudget(std::uint32_t step_tokens, double stretch) : step_tokens_(step_tokens), stretch_(stretch) {}

  /// `load`: of the decoding rows.
  PromptAllowance prompts(const StepLoad& load) const;
  void observe(const StepLoad& load, double microseconds);

  /// Fewer prompt tokens are never allowed, but for the first step of decoding rows and one in sixteen later,
  /// which are to tell what those cost: a promise to those who wait for their first token.
  static constexpr std::uint32_t kLeast = 2;

 private:
  double for_prompts(double rows) const;
  void observe_rows(const StepLoad& load, double microseconds);
  void observe_prompts(const StepLoad& load, double microseconds);

  std::uint32_t step_tokens_;
  double stretch_;
  StepCost cost_;
  bool rows_known_ = false;        // whether rows were run without prompts
  std::uint32_t since_alone_ = 0;  // steps with both since then
  double usual_ = 0;               // microseconds that decoding rows alone need: a mean over the latest steps
  double usual_of_ = 0;            // steps
  // How far the costs are trusted beyond the steps that they come from.
  double most_tokens_ = 0;
  double most_attended_ = 0;
};

}  // namespace inferno
