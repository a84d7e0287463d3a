#include "engine/step_budget.hpp"

#include <algorithm>
#include <bit>

namespace inferno {
namespace {

/// The share of a new observation. Slow enough that one interruption by the system changes little.
constexpr double kLearning = 0.2;

void learn(double& estimate, double observed) {
  estimate = estimate == 0 ? observed : estimate + kLearning * (observed - estimate);
}

}  // namespace

std::uint32_t StepBudget::prompt_tokens(std::uint32_t decoding_rows) const {
  const auto room = step_tokens_ > decoding_rows ? step_tokens_ - decoding_rows : 0;
  if (decoding_rows == 0 || stretch_ == 0) return room;
  const double decoding = decoding_[static_cast<std::size_t>(std::bit_width(decoding_rows))];
  if (decoding == 0 || mixed_ >= kMixedSteps) return 0;
  if (prompt_token_ == 0) return std::min(room, kLeast);
  const double affordable = (stretch_ - 1) * decoding / prompt_token_;
  if (affordable >= room) return room;
  return std::min(room, std::max(kLeast, static_cast<std::uint32_t>(std::max(affordable, 0.0))));
}

void StepBudget::observe(std::uint32_t decoding_rows, std::uint32_t prompt_tokens, double microseconds) {
  auto& decoding = decoding_[static_cast<std::size_t>(std::bit_width(decoding_rows))];
  if (prompt_tokens == 0) {
    mixed_ = 0;
    return learn(decoding, microseconds);
  }
  if (decoding_rows == 0) {
    if (prompt_tokens >= kTellingTokens) learn(prompt_token_, microseconds / prompt_tokens);
    return;
  }
  ++mixed_;
  learn(prompt_token_, std::max(microseconds - decoding, 0.0) / prompt_tokens);
}

}  // namespace inferno
