#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "step/executor.hpp"
#include "step/references.hpp"

namespace inferno {

/// One submission on its way through an executor that chains its steps on the host: a small state machine
/// over model steps. Used again for later submissions, for its memory.
class Submission {
 public:
  /// Takes a checked submission in.
  void start(Ticket ticket, const StepBatch& batch, const SubmitOptions& options);

  Ticket ticket() const { return ticket_; }
  const StepBatch& batch() const { return batch_; }
  OutputSink* sink() const { return sink_; }
  StageObserver* observer() const { return observer_; }
  StepResult& result() { return result_; }
  /// Steps that have been run to their end; the one to run next.
  std::uint32_t step() const { return result_.steps; }
  /// Which rows [R] take part in the next step.
  const std::vector<bool>& runs() const { return runs_; }
  bool done() const { return running_ == 0; }
  std::uint32_t steps_left() const { return max_steps_ - result_.steps; }
  const StopIds& stop_ids() const { return stop_ids_; }
  bool cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) ||
           (cancelled_by_ != nullptr && cancelled_by_->load(std::memory_order_relaxed));
  }

  /// From any thread.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  /// Before every step: ends the rows if the submission was cancelled.
  void heed_cancel();
  /// Before step 0: looks references up and skips the rows that refer to nothing.
  void resolve(const ReferenceMemory& references);
  /// The ids [T] of the next step, running rows only.
  void fill_tokens(std::vector<std::int32_t>& tokens) const;

  /// Whether the row has several outputs of kind token.
  bool has_drafts(std::uint32_t row) const { return token_outputs_[row] > 1; }
  bool running(std::uint32_t row) const { return runs_[row]; }
  /// A row's output of kind token got its id.
  void choose(std::uint32_t row, std::uint32_t output, std::int32_t id);
  void fail(std::uint32_t row, std::string error);
  /// Every running row fails.
  void fail_all(const std::string& error);
  /// A step was run: rows that chose a stop id or took all their steps end.
  void finish_step();

 private:
  void end_row(std::uint32_t row, RowStatus status);
  void end_all(RowStatus status);

  Ticket ticket_ = 0;
  StepBatch batch_;
  std::uint32_t max_steps_ = 1;
  StopIds stop_ids_;
  OutputSink* sink_ = nullptr;
  StageObserver* observer_ = nullptr;
  std::atomic<bool> cancelled_ = false;
  const std::atomic<bool>* cancelled_by_ = nullptr;  // SubmitOptions::cancelled

  StepResult result_;
  std::vector<bool> runs_;                    // [R]
  std::uint32_t running_ = 0;                 // set flags of runs_
  std::vector<std::uint32_t> token_outputs_;  // [R] how many of its outputs are of kind token
  std::vector<std::int32_t> chosen_;          // [R] what it chose in the latest step; -1: nothing
  std::vector<std::int32_t> first_tokens_;    // [T] ids of step 0, references resolved
};

}  // namespace inferno
