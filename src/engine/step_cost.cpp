#include "engine/step_cost.hpp"

#include <algorithm>
#include <cmath>

namespace inferno {
namespace {

/// What a step still counts when the next one is observed: usually, and while errors are mostly of one sign.
constexpr double kMemory = 0.995;
constexpr double kMemoryAdrift = 0.95;
/// From what drift on that is: chance alone gets half as far at most.
constexpr double kAdrift = 0.5;
constexpr double kDriftLearning = 0.05;
/// Errors count up to so many times the usual one: nearly a median.
constexpr double kMostErrors = 1.5;
/// How fast the usual error follows the errors, how much of one it takes at most, and its least value.
constexpr double kErrorLearning = 0.1;
constexpr double kErrorGrowth = 3;
constexpr double kLeastError = 0.02;
/// See solve().
constexpr double kLent = 0.0005;
/// Sweeps over the costs after each step: enough to follow, as they go on from where they were.
constexpr int kSweeps = 32;

}  // namespace

StepCost::Vector StepCost::features(const StepLoad& load) {
  Vector values = {};
  values[kStep] = 1;
  values[kToken] = static_cast<double>(load.rows) + load.prompt_tokens;
  values[kPosition] = static_cast<double>(load.attended);
  values[kPromptPosition] = static_cast<double>(load.prompt_attended);
  return values;
}

double StepCost::predict(const StepLoad& load) const {
  const auto values = features(load);
  double sum = 0;
  for (std::size_t i = 0; i < kCosts; ++i) sum += values[i] * cost_[i];
  return sum;
}

void StepCost::observe(const StepLoad& load, double microseconds) {
  const auto values = features(load);
  double observed = std::max(microseconds, 1.0);
  if (!known_) {
    // Nothing tells the step's share from the tokens' yet: as if it were a token.
    cost_[kStep] = cost_[kToken] = observed / (1 + values[kToken]);
    known_ = true;
  }
  const double predicted = std::max(predict(load), 1.0);
  const double error = (observed - predicted) / predicted;
  const double most = kMostErrors * usual_error_;
  observed = std::max(predicted * (1 + std::clamp(error, -most, most)), 1.0);
  const double size = std::min(std::abs(error), kErrorGrowth * usual_error_);
  usual_error_ = std::max(usual_error_ + kErrorLearning * (size - usual_error_), kLeastError);

  drift_ += kDriftLearning * (std::clamp(error / most, -1.0, 1.0) - drift_);
  const double memory = std::abs(drift_) > kAdrift ? kMemoryAdrift : kMemory;

  // Of what was predicted and what was observed neither alone is a fit measure when they are far apart.
  const double weight = 1 / (predicted * observed);
  for (std::size_t i = 0; i < kCosts; ++i) {
    for (std::size_t j = 0; j < kCosts; ++j) {
      products_[i][j] = memory * products_[i][j] + weight * values[i] * values[j];
    }
    targets_[i] = memory * targets_[i] + weight * values[i] * observed;
  }
  solve();
}

/// One cost after the other is set to what is best given the others. What the steps leave open stays as it
/// was.
void StepCost::solve() {
  // While prompts have told next to nothing of their own, a position costs them what it costs a row: as if so
  // much of what the rows told had come from them.
  const double lent = kLent * products_[kPosition][kPosition];
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < kCosts; ++i) {
      double weight = products_[i][i];
      double target = targets_[i];
      for (std::size_t j = 0; j < kCosts; ++j) {
        if (j != i) target -= products_[i][j] * cost_[j];
      }
      if (i == kPromptPosition) {
        weight += lent;
        target += lent * cost_[kPosition];
      }
      if (weight > 1e-30) cost_[i] = std::max(target / weight, 0.0);
    }
  }
}

}  // namespace inferno
