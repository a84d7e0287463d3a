#include "step/step_outputs.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "sampling/logprobs.hpp"

namespace inferno {
namespace {

constexpr std::uint32_t kNoRow = std::numeric_limits<std::uint32_t>::max();
constexpr StageEvent kArgmaxEvent{-1, Stage::argmax, 0, 0};

std::string_view kind_name(OutputKind kind) {
  switch (kind) {
    case OutputKind::token:
      return "token";
    case OutputKind::logits:
      return "logits";
    case OutputKind::score:
      return "score";
    case OutputKind::hidden:
      return "hidden";
  }
  return "unknown";
}

std::string find_nan(std::span<const float> values, std::string_view what) {
  const auto found =
      std::find_if(values.begin(), values.end(), [](float value) { return std::isnan(value); });
  return found == values.end() ? std::string() : fmt::format("{} {} is NaN", what, found - values.begin());
}

}  // namespace

void StepOutputs::start(Submission& submission, const StepPlan& plan, std::span<const std::int32_t> tokens,
                        SlotTable& slots) {
  submission_ = &submission;
  plan_ = &plan;
  tokens_ = tokens;
  slots_ = &slots;
  observer_ = submission.observer();
  next_ = 0;
  taken_ = 0;
  logits_due_ = false;
  chosen_ids_.clear();
  draft_row_ = kNoRow;
  lm_head_ended_ = false;
  argmax_begun_ = false;
}

void StepOutputs::finish() {
  if (taken_ != plan_->head_tokens.size() || logits_due_) {
    throw Error(fmt::format("the backend handed over {} of {} head rows{}", taken_, plan_->head_tokens.size(),
                            logits_due_ ? ", the last without logits" : ""));
  }
  if (observer_ == nullptr || !plan_->needs_lm_head) return;
  begin_argmax();
  observer_->end(kArgmaxEvent);
  if (observer_->wants_values()) observer_->values(kArgmaxEvent, chosen_ids_, 1);
}

bool StepOutputs::at(std::uint32_t head_row) const {
  return next_ < plan_->outputs.size() && plan_->outputs[next_].head_row == head_row;
}

std::uint32_t StepOutputs::position(std::uint32_t head_row) const {
  return plan_->positions[plan_->head_tokens[head_row]];
}

std::span<const OutputPlan> StepOutputs::outputs_of(std::uint32_t head_row) const {
  // Outputs are few per head row, and those before next_ are behind us.
  const auto left = std::span(plan_->outputs).subspan(next_);
  const auto first = std::lower_bound(
      left.begin(), left.end(), head_row,
      [](const OutputPlan& output, std::uint32_t wanted) { return output.head_row < wanted; });
  const auto end = std::find_if(first, left.end(),
                                [head_row](const OutputPlan& output) { return output.head_row != head_row; });
  return {first, end};
}

bool StepOutputs::wants_logits(std::uint32_t head_row) const {
  for (const OutputPlan& output : outputs_of(head_row)) {
    if (!submission_->running(output.row)) return false;
    if (submission_->batch().outputs[output.output].kind != OutputKind::hidden) return true;
  }
  return false;
}

bool StepOutputs::wants_hidden(std::uint32_t head_row) const {
  const auto outputs = outputs_of(head_row);
  return std::any_of(outputs.begin(), outputs.end(), [this](const OutputPlan& output) {
    return submission_->batch().outputs[output.output].kind == OutputKind::hidden;
  });
}

/// Whether a device can choose for a row: the largest logit, or by the row's slot, unless drafts have a
/// history that the slot does not know.
bool StepOutputs::chooses_on_device(std::uint32_t row) const {
  const std::uint32_t index = submission_->batch().slots[row];
  if (index == kGreedySlot) return true;
  const SlotTable::Slot& slot = (*slots_)[index];
  if (slot.is_plain_greedy()) return true;
  return slots_->chooses_on_device(slot) && !(submission_->has_drafts(row) && uses_history(slot.settings));
}

bool StepOutputs::wants_choice(std::uint32_t head_row) const {
  if (observer_ != nullptr || !wants_logits(head_row)) return false;
  const auto outputs = outputs_of(head_row);
  return std::all_of(outputs.begin(), outputs.end(), [this](const OutputPlan& output) {
    const OutputKind kind = submission_->batch().outputs[output.output].kind;
    if (kind == OutputKind::hidden) return true;
    return kind == OutputKind::token && chooses_on_device(output.row);
  });
}

void StepOutputs::take_hidden(std::uint32_t head_row, std::span<const float> hidden) {
  if (head_row != taken_ || logits_due_) {
    throw Error(
        fmt::format("the backend handed over the hidden state of head row {}; expected {} of head row {}",
                    head_row, logits_due_ ? "the logits" : "that", logits_due_ ? taken_ - 1 : taken_));
  }
  ++taken_;
  take_outputs(head_row, hidden, {{}, {}});
  // Asked after: a hidden state that holds a NaN has just failed the row.
  logits_due_ = wants_logits(head_row);
}

void StepOutputs::take_logits(std::uint32_t head_row, std::span<const float> logits) {
  if (taken_ == 0 || head_row != taken_ - 1) {
    throw Error(
        fmt::format("the backend handed over the logits of head row {} before its hidden state", head_row));
  }
  logits_due_ = false;
  if (observer_ != nullptr && lm_head_ended_) begin_argmax();
  take_outputs(head_row, hidden_, {logits, {}});
}

void StepOutputs::take_choice(std::uint32_t head_row, std::int32_t id) {
  if (taken_ == 0 || head_row != taken_ - 1) {
    throw Error(
        fmt::format("the backend handed over the choice of head row {} before its hidden state", head_row));
  }
  logits_due_ = false;
  take_outputs(head_row, hidden_, {{}, id});
}

void StepOutputs::add_device_waits(std::uint64_t count) {
  submission_->result().device_waits += count;
}

void StepOutputs::add_dispatches(std::uint64_t count) {
  submission_->result().dispatches += count;
}

// Makes the outputs of a head row in their order, as far as they can be made. Called with the hidden state
// and then, if something needs them, with the logits: a hidden state that is asked for after something that
// needs logits is held back until they come, because a sink is promised ascending outputs.
void StepOutputs::take_outputs(std::uint32_t head_row, std::span<const float> hidden, const HeadRow& made) {
  const bool nothing_yet = made.logits.empty() && !made.largest;
  for (; at(head_row); ++next_) {
    const OutputPlan& output = plan_->outputs[next_];
    const Output& wanted = submission_->batch().outputs[output.output];
    if (!submission_->running(output.row)) {
      if (observer_ != nullptr && wanted.kind == OutputKind::token) chosen_ids_.push_back(-1);
      continue;
    }
    if (wanted.kind != OutputKind::hidden && nothing_yet) return hold_back(head_row, hidden);
    switch (wanted.kind) {
      case OutputKind::token:
        choose(output, made);
        break;
      case OutputKind::score:
        score(output, made.logits);
        break;
      case OutputKind::logits:
        hand_on(output, made.logits);
        break;
      case OutputKind::hidden:
        hand_on(output, hidden);
        break;
    }
  }
}

void StepOutputs::hold_back(std::uint32_t head_row, std::span<const float> hidden) {
  for (std::size_t i = next_; i < plan_->outputs.size() && plan_->outputs[i].head_row == head_row; ++i) {
    if (submission_->batch().outputs[plan_->outputs[i].output].kind != OutputKind::hidden) continue;
    hidden_.assign(hidden.begin(), hidden.end());
    return;
  }
}

void StepOutputs::hand_on(const OutputPlan& output, std::span<const float> values) {
  const bool hidden = submission_->batch().outputs[output.output].kind == OutputKind::hidden;
  if (const std::string problem = find_nan(values, hidden ? "hidden state" : "logit"); !problem.empty()) {
    fail(output, problem);
  } else if (submission_->sink() != nullptr) {
    submission_->sink()->take(output.output, submission_->step(), values);
  } else {
    auto& held = submission_->result().values[output.output];
    held.insert(held.end(), values.begin(), values.end());
  }
}

void StepOutputs::choose(const OutputPlan& output, const HeadRow& made) {
  const std::span<const float> logits = made.logits;
  const std::uint32_t slot_index = submission_->batch().slots[output.row];
  Choice choice;
  if (made.largest) {
    choice.id = *made.largest;
    const bool counts = slot_index != kGreedySlot && !submission_->has_drafts(output.row);
    if (counts) (*slots_)[slot_index].history.add_generated(choice.id);
  } else if (slot_index == kGreedySlot) {
    choice = argmax(logits);
  } else {
    SlotTable::Slot& slot = (*slots_)[slot_index];
    slot.device_current = false;  // what is chosen here a device does not know of
    if (submission_->has_drafts(output.row)) {
      choice = choose_draft(output, slot, logits);
    } else {
      choice =
          inferno::choose(logits, slot.settings, slot.history, position(output.head_row) + 1, slot.allowed);
      if (choice.error.empty()) slot.history.add_generated(choice.id);
    }
  }
  if (observer_ != nullptr) chosen_ids_.push_back(static_cast<float>(choice.id));
  if (choice.error.empty()) {
    submission_->choose(output.row, output.output, choice.id);
    if (submission_->sink() != nullptr) {
      submission_->sink()->take_token(output.output, submission_->step(), choice.id);
    }
  } else {
    fail(output, choice.error);
  }
}

Choice StepOutputs::choose_draft(const OutputPlan& output, SlotTable::Slot& slot,
                                 std::span<const float> logits) {
  const std::uint32_t token = plan_->head_tokens[output.head_row];
  const TokenHistory* history = &slot.history;
  if (uses_history(slot.settings)) {  // else the history has no say, and V counts need not be copied
    if (draft_row_ != output.row) {
      draft_history_ = &slots_->draft_history(slot);
      draft_row_ = output.row;
      draft_token_ = token;
    }
    while (draft_token_ < token) draft_history_->add_generated(tokens_[++draft_token_]);
    history = draft_history_;
  }
  return inferno::choose(logits, slot.settings, *history, position(output.head_row) + 1, slot.allowed);
}

void StepOutputs::score(const OutputPlan& output, std::span<const float> logits) {
  if (const std::string problem = find_nan(logits, "logit"); !problem.empty()) return fail(output, problem);
  if (std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isinf(logit) && logit < 0; })) {
    return fail(output, "no logit is above -infinity");
  }
  const auto target = static_cast<std::size_t>(submission_->batch().outputs[output.output].target);
  const auto score = log_normalizer(logits).log_probability(logits[target]);
  submission_->result().scores[output.output].push_back(score);
}

void StepOutputs::fail(const OutputPlan& output, std::string_view reason) {
  submission_->fail(output.row, fmt::format("output {} ({}) at position {}, step {}: {}", output.output,
                                            kind_name(submission_->batch().outputs[output.output].kind),
                                            position(output.head_row), submission_->step(), reason));
}

void StepOutputs::begin_argmax() {
  if (!argmax_begun_) observer_->begin(kArgmaxEvent);
  argmax_begun_ = true;
}

void StepOutputs::begin(const StageEvent& event) {
  observer_->begin(event);
}

void StepOutputs::end(const StageEvent& event) {
  observer_->end(event);
  if (event.stage == Stage::lm_head) lm_head_ended_ = true;
}

bool StepOutputs::wants_values() const {
  return observer_->wants_values();
}

void StepOutputs::values(const StageEvent& event, std::span<const float> values, std::size_t width) {
  observer_->values(event, values, width);
}

}  // namespace inferno
