#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "model/config.hpp"
#include "step/executor.hpp"
#include "step/plan.hpp"
#include "step/slots.hpp"

namespace inferno {

/// One model step as a backend sees it: planned, with every token known.
struct StepWork {
  const StepPlan& plan;
  std::span<const std::int32_t> tokens;  ///< [T] ids of this step
  const StepBatch& batch;                ///< for the block tables: indexed by RowPlan::row
  StageObserver* observer = nullptr;
  SlotTable* slots = nullptr;  ///< for backends that choose by slots on their device

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

  // For devices, where every byte that comes back is waited for.

  /// Whether somebody asks for the hidden state of this head row; if not, take_hidden may be given an empty
  /// one.
  virtual bool wants_hidden(std::uint32_t head_row) const = 0;
  /// Whether all that is wanted of the logits is what the row's slot chooses, or the index of the largest
  /// (the lowest of equals) for kGreedySlot and greedy slots. Then `take_choice` may be called in place of
  /// take_logits; not if there is a NaN among them or nothing left to choose: what is wrong is found in the
  /// logits.
  virtual bool wants_choice(std::uint32_t head_row) const = 0;
  virtual void take_choice(std::uint32_t head_row, std::int32_t id) = 0;
  /// Counts what the backend made of the step's stages.
  virtual void add_dispatches(std::uint64_t count) = 0;
  /// Counts how often a device was asked and waited for within the step.
  virtual void add_device_waits(std::uint64_t count) = 0;
};

class Submission;

/// Told by a chain that runs: in how many steps what was chosen is known. Throws nothing.
using ChainProgress = std::function<void(std::uint32_t steps)>;

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
  /// Whether `run_step` and `run_chain` choose by slots on the device, too. Asked after `allocate`.
  virtual bool samples_on_device() const { return false; }
  /// Runs one model step: appends to the cache, hands hidden states and logits to `head`.
  virtual void run_step(const StepWork& work, HeadConsumer& head) = 0;
  // Steps that follow each other on the device, each row's choice its next token, without asking the host
  // between them. A backend that cannot do that leaves these as they are.

  /// Whether steps from `first` on, whose rows have one token and one choice each, can be chained on the
  /// device.
  virtual bool can_chain(const StepWork& /*first*/, const StopIds& /*stop_ids*/) const { return false; }
  /// Forgets what `cancel_chain` said before.
  virtual void start_chain() {}
  /// Runs `steps` steps. ids [steps][rows of first] are what they chose: kChainStopped where a row was not
  /// running any more, because it had chosen a stop id or the chain was cancelled; kChainDry where there was
  /// nothing to choose: the row's later steps then count as not run. A row that runs no more writes nothing
  /// to the cache. While it waits for the device it calls `progress` every few milliseconds at least, and as
  /// soon as it knows more ids if it can. Returns the dispatches that were made of the steps.
  virtual std::uint64_t run_chain(const StepWork& /*first*/, std::uint32_t /*steps*/,
                                  const StopIds& /*stop_ids*/, std::span<std::int32_t> /*ids*/,
                                  const ChainProgress& /*progress*/) {
    return 0;
  }
  /// From any thread, while a chain may be running: no more of its steps are wanted.
  virtual void cancel_chain() {}
  static constexpr std::int32_t kChainStopped = -1;
  static constexpr std::int32_t kChainDry = -2;

  /// One cache block as bytes, at any alignment; every block has `block_bytes()`. Asked after `allocate`.
  virtual std::size_t block_bytes() const = 0;
  virtual void copy_block(std::uint32_t source, std::uint32_t target) = 0;
  virtual void read_block(std::uint32_t block, std::span<std::byte> target) const = 0;
  virtual void write_block(std::uint32_t block, std::span<const std::byte> source) = 0;

 private:
  struct State;
  void drain();
  void run_oldest(bool may_chain);
  void run_next(Submission& submission, bool may_chain);
  bool is_chain(const Submission& submission, const StepWork& first) const;
  void run_chained_steps(Submission& submission, const StepWork& first);
  enum class Chained : std::uint8_t { taken, dry, over };
  Chained take_chained_step(Submission& submission, std::uint32_t index);

  const ModelConfig& config_;
  Capabilities capabilities_;
  std::unique_ptr<State> state_;
};

}  // namespace inferno
