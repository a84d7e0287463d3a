#pragma once

#include <cstddef>

#include "engine/token_constraint.hpp"

namespace inferno::grammar {

/// What finding out about one token costs, in steps of some nanoseconds each. Who asks gets to speak every
/// few microseconds, and what costs too much is refused.
class WorkMeter {
 public:
  explicit WorkMeter(ConstraintTurn& turn, std::size_t most = kMostSteps) : turn_(turn), most_(most) {}

  /// Throws ConstraintRefused when there have been too many, and what the turn throws.
  void spend(std::size_t steps) {
    recent_ += steps;
    if (recent_ >= kBetweenLooks) look();
  }
  ConstraintTurn& turn() { return turn_; }

  /// About a tenth of a second.
  static constexpr std::size_t kMostSteps = 16'000'000;

 private:
  static constexpr std::size_t kBetweenLooks = 512;

  void look();

  ConstraintTurn& turn_;
  std::size_t most_;
  std::size_t spent_ = 0;
  std::size_t recent_ = 0;
};

}  // namespace inferno::grammar
