#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "engine/generation_observer.hpp"
#include "model/stage.hpp"

namespace inferno {

/// What one stage cost over a number of steps.
struct StageTotals {
  std::uint64_t count = 0;
  double milliseconds = 0;
  std::uint64_t bytes = 0;
  std::uint64_t operations = 0;
};

/// Counts and times stages.
class StageTrace : public StageObserver {
 public:
  void begin(const StageEvent& event) override;
  void end(const StageEvent& event) override;

  const StageTotals& of(Stage stage) const { return totals_[static_cast<std::size_t>(stage)]; }
  /// Stages after the embedding, of all steps together.
  std::uint64_t stages() const;
  double milliseconds() const;

 private:
  std::array<StageTotals, kStageCount> totals_;
  std::chrono::steady_clock::time_point started_;
};

/// A generation's stages, those of the prompt and those of decoding apart.
class TraceObserver : public GenerationObserver {
 public:
  StageObserver* stages(bool prefill) override { return prefill ? &prefill_ : &decode_; }
  void forward(bool prefill, std::uint32_t steps, double milliseconds) override;

  const StageTrace& prefill() const { return prefill_; }
  const StageTrace& decode() const { return decode_; }
  std::uint32_t prefill_steps() const { return prefill_steps_; }
  std::uint32_t decode_steps() const { return decode_steps_; }

 private:
  StageTrace prefill_, decode_;
  std::uint32_t prefill_steps_ = 0, decode_steps_ = 0;
};

}  // namespace inferno
