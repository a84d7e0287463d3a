#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduler.hpp"
#include "step/batch.hpp"
#include "step/executor.hpp"
#include "step/result.hpp"

namespace inferno {

/// A step's rows as a batch, and what the executor hands over on the way: logits become log-probabilities,
/// hidden states sums, as they come. Used again for every step, for its memory.
class StepAssembly : public OutputSink {
 public:
  /// Sets the sampling slots that the rows need. Their constraints have been asked already.
  void build(std::span<const ScheduledRow> rows, Executor& executor);
  const StepBatch& batch() const { return batch_; }

  void take(std::uint32_t output, std::uint32_t step, std::span<const float> values) override;

  /// What a row chose; -1: it was to choose nothing.
  TokenId chosen(std::size_t row, const StepResult& result) const;
  /// The log-probabilities of what a row chose, into `event`, if its request wants them.
  void describe(std::size_t row, TokenEvent& event);

 private:
  enum class Purpose : std::uint8_t { choice, choice_logits, prompt_logits, pooling };
  struct Wanted {
    Purpose purpose;
    std::uint32_t row;
    std::uint32_t position;
  };
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;

  void add_row(const ScheduledRow& row, std::uint32_t index);
  void want(std::uint32_t index, Purpose purpose, std::uint32_t token, std::uint32_t position,
            OutputKind kind);

  std::span<const ScheduledRow> rows_;
  StepBatch batch_;
  std::vector<Wanted> wanted_;                // [O]
  std::vector<std::uint32_t> choice_;         // [R] output of the row's choice, or kNone
  std::vector<std::uint32_t> logits_of_row_;  // [R] index into logits_, or kNone
  std::vector<std::vector<float>> logits_;    // copies [V], kept until the chosen id is known
  std::uint32_t logits_used_ = 0;
  std::vector<TokenId> top_;  // scratch
};

}  // namespace inferno
