#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/stage.hpp"

namespace inferno {

/// One stage of one step, as an executor is about to run it or has just run it.
struct StageEvent {
  int layer = -1;  ///< 0-based; -1 for the embedding and the stages after the layers
  Stage stage = Stage::embedding;
  std::uint64_t bytes = 0;       ///< weights and cache read, not activations
  std::uint64_t operations = 0;  ///< multiplies and adds of the mathematics, not of the implementation
};

/// Watches the stages of a step: traces, profiles, taps for comparison, names in error messages.
/// Every stage of a step is announced once, as one begin and one end. The stages after the layers belong to
/// the outputs: a step that nothing is asked of (a chunk of a prompt) ends after the layers, and one of which
/// only hidden states are asked announces no `lm_head` and no `argmax`.
/// Called in the order of execution from the thread that runs the step. Observing may cost an executor
/// its fusions; an executor that is given no observer pays nothing.
class StageObserver {
 public:
  virtual ~StageObserver() = default;
  virtual void begin(const StageEvent& /*event*/) {}
  virtual void end(const StageEvent& /*event*/) {}
  /// If true, `values` is called after each stage with the stage's result.
  virtual bool wants_values() const { return false; }
  /// `values` is [tokens, width] row-major, tokens in the batch's order; valid during the call.
  /// For `append_kv` there are none. From `final_norm` on the rows are those of StepPlan::head_tokens, not
  /// tokens, and may come in several calls, ascending; `lm_head` leaves out those that only `hidden` is asked
  /// of. The rows of `argmax` are the outputs of kind token: [outputs, 1], the chosen ids; -1 if the row
  /// failed.
  virtual void values(const StageEvent& /*event*/, std::span<const float> /*values*/, std::size_t /*width*/) {
  }
};

}  // namespace inferno
