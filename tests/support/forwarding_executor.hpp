#pragma once

#include <memory>
#include <utility>

#include "step/executor.hpp"

namespace inferno::test {

/// Hands everything on to another executor: what a test overrides is watched or spoiled.
class ForwardingExecutor : public Executor {
 public:
  explicit ForwardingExecutor(std::unique_ptr<Executor> inner)
      : inner_(std::move(inner)), capabilities_(inner_->capabilities()) {}

  const Capabilities& capabilities() const override { return capabilities_; }
  /// What it claims to be able to do.
  Capabilities& change_capabilities() { return capabilities_; }

  MemoryNeed memory_need(const Limits& limits) const override { return inner_->memory_need(limits); }
  BlockRoom block_room(const Limits& limits) const override { return inner_->block_room(limits); }
  void reserve(const Limits& limits) override { inner_->reserve(limits); }
  const Limits& limits() const override { return inner_->limits(); }
  void set_slot(std::uint32_t slot, const SlotState& state) override { inner_->set_slot(slot, state); }
  Ticket submit(const StepBatch& batch, const SubmitOptions& options) override {
    return inner_->submit(batch, options);
  }
  bool poll(Ticket ticket) override { return inner_->poll(ticket); }
  StepResult wait(Ticket ticket) override { return inner_->wait(ticket); }
  void cancel(Ticket ticket) override { inner_->cancel(ticket); }
  void copy_blocks(std::span<const BlockCopy> copies) override { inner_->copy_blocks(copies); }
  std::vector<std::byte> export_blocks(std::span<const std::uint32_t> blocks) override {
    return inner_->export_blocks(blocks);
  }
  void import_blocks(std::span<const std::uint32_t> blocks, std::span<const std::byte> bytes) override {
    inner_->import_blocks(blocks, bytes);
  }

 private:
  std::unique_ptr<Executor> inner_;
  Capabilities capabilities_;
};

}  // namespace inferno::test
