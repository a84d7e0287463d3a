#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "step/deferred_executor.hpp"
#include "step/slots.hpp"
#include "step/submission.hpp"

namespace inferno {

/// Makes a step's outputs from what the head produces: chooses, scores, hands on; fails a row that holds a
/// NaN. Also the observer's middleman: it announces the stage argmax once, after the backend's lm_head.
class StepOutputs : public HeadConsumer, public StageObserver {
 public:
  /// Begins a step of `submission`; the arguments live until `finish`. `tokens` [T] are the step's ids.
  void start(Submission& submission, const StepPlan& plan, std::span<const std::int32_t> tokens,
             SlotTable& slots);
  /// The step was run. Throws Error if the backend did not hand over every head row.
  void finish();

  void take_hidden(std::uint32_t head_row, std::span<const float> hidden) override;
  bool wants_logits(std::uint32_t head_row) const override;
  void take_logits(std::uint32_t head_row, std::span<const float> logits) override;
  bool wants_hidden(std::uint32_t head_row) const override;
  bool wants_choice(std::uint32_t head_row) const override;
  void take_choice(std::uint32_t head_row, std::int32_t id) override;
  void add_dispatches(std::uint64_t count) override;
  void add_device_waits(std::uint64_t count) override;

  /// What the backend is given to announce its stages to; nullptr if nobody watches.
  StageObserver* observer() { return observer_ == nullptr ? nullptr : this; }
  void begin(const StageEvent& event) override;
  void end(const StageEvent& event) override;
  bool wants_values() const override;
  void values(const StageEvent& event, std::span<const float> values, std::size_t width) override;

 private:
  bool at(std::uint32_t head_row) const;
  std::uint32_t position(std::uint32_t head_row) const;
  /// What the head made of a row: its logits, or only the index of the largest; nothing yet if both are
  /// empty.
  struct HeadRow {
    std::span<const float> logits;
    std::optional<std::int32_t> largest;
  };
  void take_outputs(std::uint32_t head_row, std::span<const float> hidden, const HeadRow& made);
  bool chooses_on_device(std::uint32_t row) const;
  std::span<const OutputPlan> outputs_of(std::uint32_t head_row) const;
  void hold_back(std::uint32_t head_row, std::span<const float> hidden);
  void hand_on(const OutputPlan& output, std::span<const float> values);
  void choose(const OutputPlan& output, const HeadRow& made);
  Choice choose_draft(const OutputPlan& output, SlotTable::Slot& slot, std::span<const float> logits);
  void score(const OutputPlan& output, std::span<const float> logits);
  void fail(const OutputPlan& output, std::string_view reason);
  void begin_argmax();

  Submission* submission_ = nullptr;
  const StepPlan* plan_ = nullptr;
  std::span<const std::int32_t> tokens_;
  SlotTable* slots_ = nullptr;
  StageObserver* observer_ = nullptr;

  std::size_t next_ = 0;           // into plan_->outputs
  std::uint32_t taken_ = 0;        // head rows whose hidden state came
  bool logits_due_ = false;        // the latest head row waits for its logits
  std::vector<float> hidden_;      // [D] held back while outputs before it wait for logits
  std::vector<float> chosen_ids_;  // for StageObserver::values

  // Drafts of the row that is being chosen for: its history goes on from token to token.
  TokenHistory* draft_history_ = nullptr;
  std::uint32_t draft_row_ = 0;
  std::uint32_t draft_token_ = 0;  // the step's token up to which it goes

  bool lm_head_ended_ = false;
  bool argmax_begun_ = false;
};

}  // namespace inferno
