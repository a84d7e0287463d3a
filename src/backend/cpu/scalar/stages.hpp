#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "step/observer.hpp"

namespace inferno::scalar {

/// Announces stages to a step's observer, if there is one.
class Stages {
 public:
  explicit Stages(StageObserver* observer) : observer_(observer) {}

  /// Runs `work` as the stage `event`. `result` is what it leaves, rows of `width`; empty if there is nothing
  /// to show.
  template <typename Work>
  void run(const StageEvent& event, std::span<const float> result, std::size_t width, Work&& work) {
    begin(event);
    work();
    end(event);
    values(event, result, width);
  }

  void begin(const StageEvent& event) {
    if (observer_ != nullptr) observer_->begin(event);
  }
  void end(const StageEvent& event) {
    if (observer_ != nullptr) observer_->end(event);
  }
  void values(const StageEvent& event, std::span<const float> result, std::size_t width) {
    if (observer_ != nullptr && observer_->wants_values() && !result.empty()) {
      observer_->values(event, result, width);
    }
  }

 private:
  StageObserver* observer_;
};

}  // namespace inferno::scalar
