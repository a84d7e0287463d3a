#pragma once

#include <cstddef>

#include "grammar/pattern.hpp"

namespace inferno::grammar {

/// Work that compiling one grammar may cost, in steps of some nanoseconds each: schemas come from anyone.
class Budget {
 public:
  explicit Budget(std::size_t steps = kDefaultSteps) : left_(steps) {}

  /// Throws PatternError when it is used up.
  void spend(std::size_t steps) {
    if (steps > left_) throw PatternError("this is too much work to prepare; expected something simpler");
    left_ -= steps;
  }

  static constexpr std::size_t kDefaultSteps = 20'000'000;

 private:
  std::size_t left_;
};

}  // namespace inferno::grammar
