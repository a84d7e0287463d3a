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

/// Takes what the head produces, head row by head row in ascending order, so that a backend may compute the
/// logits of many positions in pieces and never hold them all.
class HeadConsumer {
 public:
  virtual ~HeadConsumer() = default;
  /// `hidden` [D]: the state after the final norm of StepPlan::head_tokens[head_row].
  virtual void take_hidden(std::uint32_t head_row, std::span<const float> hidden) = 0;
  /// Whether the LM head must be run for this head row.
  virtual bool wants_logits(std::uint32_t head_row) const = 0;
  /// `logits` [V]. Chooses, scores, or hands on.
  virtual void take_logits(std::uint32_t head_row, std::span<const float> logits) = 0;
};

/// What all executors share that run in their caller's thread: tickets, chained steps, references, slots,
/// cancelling, statuses and results. Work is queued by `submit` and done by `wait` and `poll`: nothing is
/// handed from thread to thread, which on a CPU would cost more than it hides. A backend implements the
/// protected part.
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
  DeferredExecutor(const ModelConfig& config, Capabilities capabilities);

  /// Allocates cache and scratch for these limits (checked already) and frees what was there. Strong
  /// guarantee: throws with nothing changed.
  virtual void allocate(const Limits& limits) = 0;
  /// Runs one model step: appends to the cache, hands hidden states and logits to `head`.
  virtual void run_step(const StepWork& work, HeadConsumer& head) = 0;
  /// One cache block as bytes; every block has `block_bytes()`.
  virtual std::size_t block_bytes() const = 0;
  virtual void copy_block(std::uint32_t source, std::uint32_t target) = 0;
  virtual void read_block(std::uint32_t block, std::span<std::byte> target) const = 0;
  virtual void write_block(std::uint32_t block, std::span<const std::byte> source) = 0;

 private:
  struct State;
  const ModelConfig& config_;
  Capabilities capabilities_;
  std::unique_ptr<State> state_;
};

}  // namespace inferno
