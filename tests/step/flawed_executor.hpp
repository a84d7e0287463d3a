#pragma once

#include <memory>
#include <string>
#include <utility>

#include "step/executor.hpp"

namespace inferno::toy {

/// An executor that keeps all rules but one, to see that the conformance suite notices. Passes everything on
/// to another.
class FlawedExecutor : public Executor {
 public:
  /// `flaw`: ignores_stop_ids, ignores_stop_rows, ignores_cancel, ignores_references, ignores_slots,
  /// ignores_penalties, ignores_what_was_generated, ignores_masks, ignores_sinks, accepts_bad_positions or
  /// refuses_too_late. Under any other name nothing is wrong, and the test that expects a failure says so.
  FlawedExecutor(std::unique_ptr<Executor> inner, std::string flaw)
      : inner_(std::move(inner)), flaw_(std::move(flaw)) {}

  const Capabilities& capabilities() const override { return inner_->capabilities(); }
  MemoryNeed memory_need(const Limits& limits) const override { return inner_->memory_need(limits); }
  void reserve(const Limits& limits) override { inner_->reserve(limits); }
  const Limits& limits() const override { return inner_->limits(); }

  void set_slot(std::uint32_t slot, const SlotState& state) override {
    SlotState changed = state;
    if (flaw_ == "ignores_penalties") {
      changed.settings.repetition_penalty = 1.0F;
      changed.settings.presence_penalty = changed.settings.frequency_penalty = 0.0F;
    }
    if (flaw_ == "ignores_masks" && state.allowed.size() > 1) changed.allowed.clear();
    if (flaw_ == "ignores_what_was_generated") changed.generated.clear();
    inner_->set_slot(slot, changed);
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
        for (std::size_t i = changed.row_offsets[row] + 1;
             i < changed.row_offsets[row + 1] && i < changed.positions.size(); ++i) {
          changed.positions[i] = changed.positions[i - 1] + 1;
        }
      }
    }
    try {
      return inner_->submit(changed, changed_options);
    } catch (const UsageError&) {
      // What a backend that checks while it works would do: some of it is done by then.
      if (flaw_ == "refuses_too_late") {
        const BlockCopy copy{0, inner_->limits().blocks - 2};
        inner_->copy_blocks({&copy, 1});
      }
      throw;
    }
  }

  bool poll(Ticket ticket) override { return inner_->poll(ticket); }
  StepResult wait(Ticket ticket) override { return inner_->wait(ticket); }
  void cancel(Ticket ticket) override {
    if (flaw_ != "ignores_cancel") inner_->cancel(ticket);
  }
  void copy_blocks(std::span<const BlockCopy> copies) override { inner_->copy_blocks(copies); }
  std::vector<std::byte> export_blocks(std::span<const std::uint32_t> blocks) override {
    return inner_->export_blocks(blocks);
  }
  void import_blocks(std::span<const std::uint32_t> blocks, std::span<const std::byte> bytes) override {
    inner_->import_blocks(blocks, bytes);
  }

 private:
  std::unique_ptr<Executor> inner_;
  std::string flaw_;
};

}  // namespace inferno::toy
