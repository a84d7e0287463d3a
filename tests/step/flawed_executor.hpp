#pragma once

#include <memory>
#include <string>
#include <utility>

#include "step/executor.hpp"
#include "support/forwarding_executor.hpp"

namespace inferno::toy {

/// An executor that keeps all rules but one, to see that the conformance suite notices.
class FlawedExecutor : public test::ForwardingExecutor {
 public:
  /// `flaw`: ignores_stop_ids, ignores_stop_rows, ignores_cancel, ignores_references, ignores_slots,
  /// ignores_penalties, ignores_what_was_generated, ignores_masks, ignores_sinks, accepts_bad_positions or
  /// refuses_too_late. Under any other name nothing is wrong, and the test that expects a failure says so.
  FlawedExecutor(std::unique_ptr<Executor> inner, std::string flaw)
      : ForwardingExecutor(std::move(inner)), flaw_(std::move(flaw)) {}

  void set_slot(std::uint32_t slot, const SlotState& state) override {
    SlotState changed = state;
    if (flaw_ == "ignores_penalties") {
      changed.settings.repetition_penalty = 1.0F;
      changed.settings.presence_penalty = changed.settings.frequency_penalty = 0.0F;
    }
    if (flaw_ == "ignores_masks" && state.allowed.size() > 1) changed.allowed.clear();
    if (flaw_ == "ignores_what_was_generated") changed.generated.clear();
    ForwardingExecutor::set_slot(slot, changed);
  }

  Ticket submit(const StepBatch& batch, const SubmitOptions& options) override {
    StepBatch changed = batch;
    SubmitOptions changed_options = options;
    if (flaw_ == "ignores_stop_ids") changed_options.stop_ids = {};
    if (flaw_ == "ignores_stop_rows" && !options.stop_ids.row_offsets.empty())
      changed_options.stop_ids.row_offsets = {};
    if (flaw_ == "ignores_sinks") changed_options.sink = nullptr;
    if (flaw_ == "ignores_references") {
      for (TokenInput& token : changed.tokens) token.ticket = 0;
    }
    if (flaw_ == "ignores_slots") changed.slots.assign(changed.slots.size(), kGreedySlot);
    if (flaw_ == "accepts_bad_positions") {
      for (std::size_t row = 0; row + 1 < changed.row_offsets.size(); ++row) {
        for (std::size_t i = std::size_t{changed.row_offsets[row]} + 1;
             i < changed.row_offsets[row + 1] && i < changed.positions.size(); ++i) {
          changed.positions[i] = changed.positions[i - 1] + 1;
        }
      }
    }
    try {
      return ForwardingExecutor::submit(changed, changed_options);
    } catch (const UsageError&) {
      // What a backend that checks while it works would do: some of it is done by then.
      if (flaw_ == "refuses_too_late") {
        const BlockCopy copy{0, limits().blocks - 2};
        copy_blocks({&copy, 1});
      }
      throw;
    }
  }

  void cancel(Ticket ticket) override {
    if (flaw_ != "ignores_cancel") ForwardingExecutor::cancel(ticket);
  }

 private:
  std::string flaw_;
};

}  // namespace inferno::toy
