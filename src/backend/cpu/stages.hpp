#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "step/observer.hpp"

namespace inferno::cpu {

// What a multiplication and an addition, or what stands for them, cost per element in StageEvent::operations.
inline constexpr std::uint64_t kNormOperations = 4;    // square, add, scale, weight
inline constexpr std::uint64_t kRopeOperations = 3;    // two products and a sum
inline constexpr std::uint64_t kSwigluOperations = 5;  // negate, exp, add, divide, multiply

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

  /// Whether anybody watches, and whether they want to see results: what is fused must then come apart.
  bool observed() const { return observer_ != nullptr; }
  bool wants_values() const { return observer_ != nullptr && observer_->wants_values(); }

  void begin(const StageEvent& event) {
    if (observer_ != nullptr) observer_->begin(event);
  }
  void end(const StageEvent& event) {
    if (observer_ != nullptr) observer_->end(event);
  }
  void values(const StageEvent& event, std::span<const float> result, std::size_t width) {
    if (wants_values() && !result.empty()) {
      observer_->values(event, result, width);
    }
  }

 private:
  StageObserver* observer_;
};

}  // namespace inferno::cpu
