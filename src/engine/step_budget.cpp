#include "engine/step_budget.hpp"

#include <algorithm>
#include <cmath>

namespace inferno {
namespace {

/// A step takes at most so many times the prompt tokens of those before it, and so many times the positions
/// that they attended to. From one chunk of a new prompt to the next the latter grow threefold anyway.
constexpr double kTokenGrowth = 2;
constexpr double kAttendedGrowth = 4;
/// What is left after each step of what was allowed because of an earlier one.
constexpr double kMemory = 0.999;

/// The most tokens from position `first` on that cost at most `most`, each `token` and `position` for every
/// position that it attends to: the positive root of a quadratic equation.
double affordable(double most, double token, double position, double first) {
  if (most <= 0) return 0;
  const double linear = token + position * (first + 0.5);
  const double root = linear + std::sqrt(linear * linear + 2 * position * most);
  return root > 0 ? 2 * most / root : HUGE_VAL;
}

}  // namespace

std::uint32_t PromptAllowance::take(std::uint32_t first, std::uint32_t wanted, bool half) {
  const double share = half ? 0.5 : 1;
  const auto least = half ? least_ - least_ / 2 : least_;
  auto count = std::min(wanted, half ? tokens_ - tokens_ / 2 : tokens_);
  if (limited_) {
    const double few = std::min(affordable(share * microseconds_, per_token_, per_position_, first),
                                affordable(share * attended_, 0, 1, first));
    // Rounding is not to take a token from whom it is meant for.
    if (few < count) count = std::min(count, std::max(least, static_cast<std::uint32_t>(few + 1e-6)));
  }
  StepLoad load;
  load.add_prompt(first, count);
  const auto attended = static_cast<double>(load.prompt_attended);
  tokens_ -= count;
  least_ -= std::min(least_, count);
  microseconds_ -= count * per_token_ + attended * per_position_;
  attended_ -= attended;
  return count;
}

PromptAllowance StepBudget::prompts(const StepLoad& load) const {
  PromptAllowance allowance;
  allowance.tokens_ = step_tokens_ > load.rows ? step_tokens_ - load.rows : 0;
  if (load.rows == 0 || stretch_ == 0) return allowance;
  allowance.limited_ = true;
  allowance.least_ = std::min(allowance.tokens_, kLeast);
  if (!rows_known_) {
    allowance.tokens_ = allowance.least_ = 0;
    return allowance;
  }
  const double most_tokens = std::max<double>(kLeast, most_tokens_);
  if (most_tokens < allowance.tokens_) allowance.tokens_ = static_cast<std::uint32_t>(most_tokens);
  allowance.attended_ = most_attended_;
  allowance.per_token_ = cost_.per_token();
  allowance.per_position_ = cost_.per_prompt_position();
  allowance.microseconds_ = (stretch_ - 1) * cost_.predict(load);
  return allowance;
}

void StepBudget::observe(const StepLoad& load, double microseconds) {
  cost_.observe(load, microseconds);
  if (load.rows > 0 && load.prompt_tokens == 0) rows_known_ = true;
  most_tokens_ = std::max(kMemory * most_tokens_, kTokenGrowth * load.prompt_tokens);
  most_attended_ =
      std::max(kMemory * most_attended_, kAttendedGrowth * static_cast<double>(load.prompt_attended));
}

}  // namespace inferno
