#include "engine/step_budget.hpp"

#include <algorithm>
#include <cmath>

namespace inferno {
namespace {

/// A step takes at most so many times the prompt tokens of those before it, and so many times the positions
/// that they attended to. From one chunk of a new prompt to the next the latter grow threefold anyway.
constexpr double kTokenGrowth = 2;
constexpr double kAttendedGrowth = 4;
/// What is left after each step with prompts of what was allowed because of an earlier one. What a token
/// costs is forgotten while a prompt's last ones, which attend to much, go a few at a time; the next prompt's
/// first ones are to teach it again before there are many.
constexpr double kMemory = 0.9;
/// Of steps with rows while prompts wait one in so many goes without the prompts: nothing else tells what
/// rows cost from what prompts cost, for both grow from step to step.
constexpr std::uint32_t kAloneEvery = 16;
/// What rows usually need is a mean over their latest steps, as many as take so many microseconds without
/// prompts; those with prompts count as the next one without.
constexpr double kUsualTime = 2e6;
/// A step counts up to so many times what was predicted: it may have been interrupted.
constexpr double kMostSurprise = 1.5;
/// Of the stretch, what is left for prompts beside rows that need more than usual.
constexpr double kLeastShare = 0.1;
/// Of a step that took far too long, what the next may have at least: it may have been interrupted, too.
constexpr double kMostCut = 0.1;

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
  if (!rows_known_ || since_alone_ + 1 >= kAloneEvery) {
    allowance.tokens_ = allowance.least_ = 0;
    return allowance;
  }
  const double most_tokens = std::max<double>(kLeast, most_tokens_);
  if (most_tokens < allowance.tokens_) allowance.tokens_ = static_cast<std::uint32_t>(most_tokens);
  allowance.attended_ = most_attended_;
  allowance.per_token_ = cost_.per_token();
  allowance.per_position_ = cost_.per_prompt_position();
  allowance.microseconds_ = for_prompts(cost_.predict(load));
  return allowance;
}

void StepBudget::observe(const StepLoad& load, double microseconds) {
  if (load.rows > 0) observe_rows(load, microseconds);
  cost_.observe(load, microseconds);
  if (load.rows > 0 && load.prompt_tokens > 0) observe_prompts(load, microseconds);
}

/// What is left for prompts beside rows that need so much, all in microseconds.
double StepBudget::for_prompts(double rows) const {
  return std::max(stretch_ * usual_ - rows, kLeastShare * (stretch_ - 1) * rows);
}

/// How far the next step with prompts may go beyond this one; less far than this if this took too long, for
/// what it cost is learned slower than a prompt grows.
void StepBudget::observe_prompts(const StepLoad& load, double microseconds) {
  const double rows = cost_.predict({.rows = load.rows, .attended = load.attended});
  const double wanted = for_prompts(rows);
  const double taken = microseconds - rows;
  const bool too_long = taken > wanted;
  const double share = too_long ? std::max(wanted / taken, kMostCut) : 1;
  const double tokens = share * load.prompt_tokens;
  const double attended = share * static_cast<double>(load.prompt_attended);
  most_tokens_ = too_long ? tokens : std::max(kMemory * most_tokens_, kTokenGrowth * tokens);
  most_attended_ = too_long ? attended : std::max(kMemory * most_attended_, kAttendedGrowth * attended);
}

/// Before the costs have learned from the step.
void StepBudget::observe_rows(const StepLoad& load, double microseconds) {
  if (load.prompt_tokens > 0) {
    ++since_alone_;
    return;
  }
  const double steps = rows_known_ ? since_alone_ + 1 : 1;
  const double rows =
      rows_known_ ? std::min(microseconds, kMostSurprise * cost_.predict(load)) : microseconds;
  usual_of_ += steps;
  // Between what a step took before and now: rows that become many are to be followed within seconds, too.
  const double time = steps * std::sqrt(usual_ * rows);
  usual_ += std::clamp(time / kUsualTime, steps / usual_of_, 1.0) * (rows - usual_);
  since_alone_ = 0;
  rows_known_ = true;
}

}  // namespace inferno
