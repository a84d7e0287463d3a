#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/config.hpp"
#include "step/executor.hpp"
#include "step/plan.hpp"

namespace inferno {

/// One model step as a backend sees it: planned, with every token known.
struct StepWork {
  const StepPlan& plan;
  std::span<const std::int32_t> tokens;  ///< [T] ids of this step
  const StepBatch& batch;                ///< for the block tables: indexed by RowPlan::row
  StageObserver* observer = nullptr;

  /// The block table of a running row.
  std::span<const std::uint32_t> table(const RowPlan& row) const {
    const auto begin = batch.block_offsets[row.row];
    return {batch.blocks.data() + begin, batch.block_offsets[row.row + 1] - begin};
  }
};

/// Takes what the head produces, head row by head row in ascending order: for each row `take_hidden`, then
/// `wants_logits`, then `take_logits` if it does, before the next row's. So a backend may compute the logits
/// of many positions in pieces and never hold them all. A backend that has all logits of a step at once
/// should end the stage lm_head before it hands them over: choosing is the stage argmax, which the consumer
/// announces.
class HeadConsumer {
 public:
  virtual ~HeadConsumer() = default;
  /// `hidden` [D]: the state after the final norm of StepPlan::head_tokens[head_row]. Valid during the call.
  virtual void take_hidden(std::uint32_t head_row, std::span<const float> hidden) = 0;
  /// Whether the LM head must be run for this head row. A backend may ask ahead, too: what is false stays
  /// false; what is true can turn false when an earlier head row of the same row fails, and the logits are
  /// then taken and dropped.
  virtual bool wants_logits(std::uint32_t head_row) const = 0;
  /// `logits` [V], valid during the call. Chooses, scores, or hands on.
  virtual void take_logits(std::uint32_t head_row, std::span<const float> logits) = 0;
};

class Submission;

/// What all executors share that run in their caller's thread: tickets, chained steps, references, slots,
/// cancelling, statuses and results. Work is queued by `submit` and done by `wait` and `poll`, and by what
/// must come after it (slot changes, copies, exports, imports): nothing is handed from thread to thread,
/// which on a CPU would cost more than it hides. A backend implements the protected part;
/// tests/step/toy_executor.hpp is the smallest example.
///
/// What a model step throws: DeviceLost is remembered, every later call throws it again. Anything else (a
/// backend's Error, a sink's or an observer's exception) fails the rows that were running, with its text, and
/// the queue goes on.
class DeferredExecutor : public Executor {
 public:
  ~DeferredExecutor() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  void reserve(const Limits& limits) override;
  const Limits& limits() const override;
  void set_slot(std::uint32_t slot, const SlotState& state) override;
  Ticket submit(const StepBatch& batch, const SubmitOptions& options) override;
  bool poll(Ticket ticket) override;
  StepResult wait(Ticket ticket) override;
  void cancel(Ticket ticket) override;
  void copy_blocks(std::span<const BlockCopy> copies) override;
  std::vector<std::byte> export_blocks(std::span<const std::uint32_t> blocks) override;
  void import_blocks(std::span<const std::uint32_t> blocks, std::span<const std::byte> bytes) override;

 protected:
  /// What every executor of this kind can do, for a backend to complete with its names, its cache format and
  /// what else it can: all that the shared part does by itself.
  static Capabilities shared_capabilities();

  /// `config` outlives the executor.
  DeferredExecutor(const ModelConfig& config, Capabilities capabilities);

  /// What the shared part takes of MemoryNeed::scratch_bytes for these limits: the slots' histories.
  std::uint64_t slot_bytes(const Limits& limits) const;

  /// Allocates cache and scratch for these limits (checked already) in place of what was there. If it throws
  /// (std::bad_alloc included) the executor counts as not reserved; better give back the old memory first
  /// than hold both at once. Cache blocks are to be set to zero, so that no export shows what memory held
  /// before.
  virtual void allocate(const Limits& limits) = 0;
  /// Runs one model step: appends to the cache, hands hidden states and logits to `head`.
  virtual void run_step(const StepWork& work, HeadConsumer& head) = 0;
  /// One cache block as bytes, at any alignment; every block has `block_bytes()`. Asked after `allocate`.
  virtual std::size_t block_bytes() const = 0;
  virtual void copy_block(std::uint32_t source, std::uint32_t target) = 0;
  virtual void read_block(std::uint32_t block, std::span<std::byte> target) const = 0;
  virtual void write_block(std::uint32_t block, std::span<const std::byte> source) = 0;

 private:
  struct State;
  void drain();
  void run_oldest();
  void run_one_step(Submission& submission);

  const ModelConfig& config_;
  Capabilities capabilities_;
  std::unique_ptr<State> state_;
};

}  // namespace inferno
