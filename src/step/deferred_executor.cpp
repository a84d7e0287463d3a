#include "step/deferred_executor.hpp"

#include <deque>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "platform/fault.hpp"
#include "step/block_transfer.hpp"
#include "step/references.hpp"
#include "step/slots.hpp"
#include "step/step_outputs.hpp"
#include "step/submission.hpp"

namespace inferno {
namespace {

constexpr Limits kNothingReserved{0, 0, 0, 0, 0, 0, 0, 0};

}  // namespace

struct DeferredExecutor::State {
  Limits limits = kNothingReserved;
  bool reserved = false;
  bool in_step = false;  // a sink or an observer may be calling
  std::string lost;      // what DeviceLost said; empty while there is a device

  SlotTable slots;
  ReferenceMemory references;
  Ticket next_ticket = 1;

  // `cancel` comes from any thread: it looks a submission up under the mutex and sets its flag. The
  // executor's own thread takes the mutex to change the queue, not to read it, and never while a step runs.
  std::mutex mutex;
  std::deque<std::unique_ptr<Submission>> queue;  // unfinished, consecutive tickets up to next_ticket - 1
  std::vector<std::unique_ptr<Submission>> spare;
  std::map<Ticket, StepResult> finished;  // waiting to be handed over

  // Of the step that runs; kept for their memory.
  StepPlan plan;
  std::vector<std::int32_t> tokens;
  StepOutputs outputs;
  // Of a chain of steps on the device.
  std::vector<std::uint32_t> chain_rows;  // the batch's rows that it began with
  std::vector<std::int32_t> chain_ids;    // [steps][chain_rows]

  void check_alive(std::string_view call) const {
    if (!lost.empty()) throw DeviceLost(lost);
    if (in_step) throw UsageError(fmt::format("{} was called from inside a sink or an observer", call));
  }

  void check_ready(std::string_view call) const {
    check_alive(call);
    if (!reserved) throw UsageError(fmt::format("{} was called before reserve", call));
  }

  void check_ticket(Ticket ticket, std::string_view call) const {
    if (ticket == 0 || ticket >= next_ticket) {
      throw UsageError(
          fmt::format("{}: ticket {} is unknown; the latest is {}", call, ticket, next_ticket - 1));
    }
    const bool queued = !queue.empty() && ticket >= queue.front()->ticket();
    if (!queued && finished.find(ticket) == finished.end()) {
      throw UsageError(fmt::format("{}: the result of ticket {} was handed over, or lost in a later reserve",
                                   call, ticket));
    }
  }

  void drop_everything() {
    const std::lock_guard lock(mutex);
    queue.clear();
    finished.clear();
    references.clear();
  }

  // Moves the oldest submission from the queue to the finished ones.
  void retire() {
    Submission& submission = *queue.front();
    references.finish(submission.ticket(), submission.batch(), submission.result());
    finished.emplace(submission.ticket(), std::move(submission.result()));
    const std::lock_guard lock(mutex);
    spare.push_back(std::move(queue.front()));
    queue.pop_front();
  }
};

Capabilities DeferredExecutor::shared_capabilities() {
  Capabilities can;
  can.multi_step = true;
  can.token_references = true;
  can.sampling_slots = true;
  can.token_masks = true;
  can.logits = can.scores = can.hidden = true;
  can.block_transfer = true;
  can.referable_tickets = 8;
  return can;
}

DeferredExecutor::DeferredExecutor(const ModelConfig& config, Capabilities capabilities)
    : config_(config), capabilities_(std::move(capabilities)), state_(std::make_unique<State>()) {}

DeferredExecutor::~DeferredExecutor() = default;

std::uint64_t DeferredExecutor::slot_bytes(const Limits& limits) const {
  return SlotTable::bytes(limits.slots, config_.vocab_size);
}

void DeferredExecutor::reserve(const Limits& limits) {
  State& state = *state_;
  state.check_alive("reserve");
  check_limits(limits);

  // From here on there is no way back: the old memory goes before the new is asked for.
  state.drop_everything();
  state.slots = SlotTable();
  state.limits = kNothingReserved;
  state.reserved = false;
  const auto cannot = [&](std::string_view why) {
    const MemoryNeed need = memory_need(limits);
    return Error(fmt::format(
        "backend {} cannot allocate {} bytes of cache ({} blocks of {} positions) and {} bytes of "
        "scratch: {}; ask for a shorter context, fewer rows or fewer blocks",
        capabilities_.backend, need.cache_bytes, limits.blocks, limits.block_size, need.scratch_bytes, why));
  };
  if (fault::hit(fault::kAllocation)) throw cannot("injected fault alloc");
  try {
    allocate(limits);  // first: it knows how much memory there is
    state.slots = SlotTable(limits.slots, config_.vocab_size);
    if (samples_on_device()) state.slots.choose_on_device();
  } catch (const std::bad_alloc&) {
    throw cannot("out of memory");
  } catch (const std::length_error&) {
    throw cannot("more than the address space");
  }
  state.limits = limits;
  state.reserved = true;
}

const Limits& DeferredExecutor::limits() const {
  return state_->limits;
}

void DeferredExecutor::set_slot(std::uint32_t slot, const SlotState& slot_state) {
  state_->check_ready("set_slot");
  drain();
  state_->slots.set(slot, slot_state, capabilities_);
}

Ticket DeferredExecutor::submit(const StepBatch& batch, const SubmitOptions& options) {
  State& state = *state_;
  state.check_ready("submit");
  check_submission(batch, options, state.limits, capabilities_, config_.vocab_size, state.next_ticket);
  state.references.check(batch);
  if (fault::hit(fault::kSubmission)) {
    throw Error(
        fmt::format("backend {} refuses the submission: injected fault submit", capabilities_.backend));
  }

  std::unique_ptr<Submission> submission;
  if (state.spare.empty()) {
    submission = std::make_unique<Submission>();
  } else {
    submission = std::move(state.spare.back());
    state.spare.pop_back();
  }
  const Ticket ticket = state.next_ticket;
  submission->start(ticket, batch, options);
  state.references.add(ticket, batch);
  {
    const std::lock_guard lock(state.mutex);
    state.queue.push_back(std::move(submission));
  }
  ++state.next_ticket;

  // Whoever waits in the queue may still refer to what its ticket allowed.
  const Ticket oldest = state.queue.front()->ticket();
  if (oldest > capabilities_.referable_tickets) {
    state.references.forget_before(oldest - capabilities_.referable_tickets);
  }
  return ticket;
}

bool DeferredExecutor::poll(Ticket ticket) {
  State& state = *state_;
  state.check_ready("poll");
  state.check_ticket(ticket, "poll");
  if (!state.queue.empty()) run_oldest(false);
  return state.queue.empty() || ticket < state.queue.front()->ticket();
}

StepResult DeferredExecutor::wait(Ticket ticket) {
  State& state = *state_;
  state.check_ready("wait");
  state.check_ticket(ticket, "wait");
  while (!state.queue.empty() && state.queue.front()->ticket() <= ticket) run_oldest(true);
  const auto found = state.finished.find(ticket);
  StepResult result = std::move(found->second);
  state.finished.erase(found);
  return result;
}

void DeferredExecutor::cancel(Ticket ticket) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  if (state.queue.empty() || ticket < state.queue.front()->ticket()) return;
  const Ticket index = ticket - state.queue.front()->ticket();
  if (index >= state.queue.size()) return;
  state.queue[index]->cancel();
  if (index == 0) cancel_chain();
}

void DeferredExecutor::copy_blocks(std::span<const BlockCopy> copies) {
  state_->check_ready("copy_blocks");
  for (const BlockCopy& copy : copies) {
    check_blocks({&copy.source, 1}, state_->limits, "copy_blocks: source");
    check_blocks({&copy.target, 1}, state_->limits, "copy_blocks: target");
  }
  drain();
  for (const BlockCopy& copy : copies) {
    if (copy.source != copy.target) copy_block(copy.source, copy.target);
  }
}

namespace {

BlockShape shape_of(const ModelConfig& config, const Capabilities& capabilities, const Limits& limits,
                    std::size_t block_bytes) {
  return {capabilities.cache_format, config.layers,     config.kv_heads,
          config.head_dim,           limits.block_size, block_bytes};
}

void check_transfer(const Capabilities& capabilities, std::string_view call) {
  if (capabilities.block_transfer) return;
  throw UsageError(fmt::format("{}: backend {} declares no block transfer", call, capabilities.backend));
}

}  // namespace

std::vector<std::byte> DeferredExecutor::export_blocks(std::span<const std::uint32_t> blocks) {
  state_->check_ready("export_blocks");
  check_transfer(capabilities_, "export_blocks");
  check_blocks(blocks, state_->limits, "export_blocks: blocks");
  drain();
  const std::size_t size = block_bytes();
  BlockExport exported = start_export(shape_of(config_, capabilities_, state_->limits, size),
                                      static_cast<std::uint32_t>(blocks.size()));
  const auto payload = std::span(exported.bytes).subspan(exported.payload);
  for (std::size_t i = 0; i < blocks.size(); ++i) read_block(blocks[i], payload.subspan(i * size, size));
  return std::move(exported.bytes);
}

void DeferredExecutor::import_blocks(std::span<const std::uint32_t> blocks,
                                     std::span<const std::byte> bytes) {
  state_->check_ready("import_blocks");
  check_transfer(capabilities_, "import_blocks");
  check_blocks(blocks, state_->limits, "import_blocks: blocks");
  const std::size_t size = block_bytes();
  const auto payload =
      check_import(bytes, shape_of(config_, capabilities_, state_->limits, size), blocks.size());
  drain();
  for (std::size_t i = 0; i < blocks.size(); ++i) write_block(blocks[i], payload.subspan(i * size, size));
}

void DeferredExecutor::drain() {
  while (!state_->queue.empty()) run_oldest(true);
}

/// One model step of the oldest submission, or all that can be chained on the device (a poll must not take so
/// long), or its end if nothing of it is left to run.
void DeferredExecutor::run_oldest(bool may_chain) {
  State& state = *state_;
  Submission& submission = *state.queue.front();
  submission.heed_cancel();
  if (submission.step() == 0) submission.resolve(state.references);
  if (!submission.done()) {
    run_next(submission, may_chain);
    submission.heed_cancel();
  }
  if (submission.done()) state.retire();
}

void DeferredExecutor::run_next(Submission& submission, bool may_chain) {
  State& state = *state_;
  const StepBatch& batch = submission.batch();
  state.in_step = true;
  try {
    if (submission.step() == 0) {
      plan_first_step(batch, state.limits, submission.runs(), state.plan);
    } else {
      plan_chained_step(batch, state.limits, submission.step(), submission.runs(), state.plan);
    }
    submission.fill_tokens(state.tokens);
    if (fault::hit(fault::kDeviceLost)) {
      throw DeviceLost(
          fmt::format("backend {} lost its device in step {} of submission {}: injected fault lost",
                      capabilities_.backend, submission.step(), submission.ticket()));
    }
    state.outputs.start(submission, state.plan, state.tokens, state.slots);
    const StepWork work{state.plan, state.tokens, batch, state.outputs.observer(), &state.slots};
    if (may_chain && is_chain(submission, work)) {
      run_chained_steps(submission, work);
    } else {
      run_step(work, state.outputs);
      state.outputs.finish();
      submission.finish_step();
    }
  } catch (const DeviceLost& error) {
    state.in_step = false;
    state.lost = error.what();
    throw;
  } catch (const std::exception& error) {
    submission.fail_all(fmt::format("step {}: {}", submission.step(), error.what()));
  } catch (...) {
    submission.fail_all(fmt::format("step {}: an exception of an unknown kind", submission.step()));
  }
  state.in_step = false;
}

/// Whether the device can go on by itself from this step on: several steps are wanted, every row has one
/// token and one choice, and nobody watches.
bool DeferredExecutor::is_chain(const Submission& submission, const StepWork& first) const {
  const StepPlan& plan = first.plan;
  const std::size_t rows = plan.rows.size();
  if (submission.steps_left() < 2 || first.observer != nullptr || plan.positions.size() != rows ||
      plan.outputs.size() != rows || plan.head_tokens.size() != rows) {
    return false;
  }
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (!state_->outputs.wants_choice(row) || state_->outputs.wants_hidden(row)) return false;
  }
  return can_chain(first, submission.stop_ids());
}

/// Runs what is left of a submission on the device, and takes its steps in one by one as if they had been run
/// so, while it runs if the device says what it chose. A step in which there was nothing to choose is run
/// again by itself: what is wrong is found in its logits.
void DeferredExecutor::run_chained_steps(Submission& submission, const StepWork& first) {
  State& state = *state_;
  const std::uint32_t steps = submission.steps_left();
  state.chain_rows.clear();
  for (const RowPlan& row : first.plan.rows) state.chain_rows.push_back(row.row);
  state.chain_ids.resize(steps * state.chain_rows.size());
  start_chain();
  if (submission.cancelled()) return;

  std::uint32_t taken = 0;
  auto latest = Chained::taken;
  std::exception_ptr thrown;  // by a sink; the device is still running
  const auto take_in = [&](std::uint32_t known) {
    try {
      while (taken < known && latest == Chained::taken && !submission.done()) {
        latest = take_chained_step(submission, taken);
        if (latest == Chained::taken) ++taken;
      }
    } catch (...) {
      thrown = std::current_exception();
      latest = Chained::over;
    }
    if (thrown || submission.cancelled()) cancel_chain();
  };
  const std::uint64_t dispatches = run_chain(first, steps, submission.stop_ids(), state.chain_ids, take_in);
  state.outputs.add_dispatches(dispatches);
  take_in(steps);
  if (thrown) std::rethrow_exception(thrown);
  if (latest != Chained::dry) return;
  run_step({state.plan, state.tokens, submission.batch(), nullptr, &state.slots}, state.outputs);
  state.outputs.finish();
  submission.finish_step();
}

/// Takes in what the device chose in step `index` of a chain. `dry`: there was nothing to choose for a row;
/// the step is planned, and to be run. `over`: the device did not run it.
DeferredExecutor::Chained DeferredExecutor::take_chained_step(Submission& submission, std::uint32_t index) {
  State& state = *state_;
  const std::size_t rows = state.chain_rows.size();
  const auto ids = std::span(state.chain_ids).subspan(index * rows, rows);
  bool dry = false;
  for (std::size_t i = 0; i < rows; ++i) {
    if (!submission.running(state.chain_rows[i])) continue;
    if (ids[i] == kChainStopped) return Chained::over;
    dry = dry || ids[i] == kChainDry;
  }
  if (index > 0) {
    plan_chained_step(submission.batch(), state.limits, submission.step(), submission.runs(), state.plan);
    submission.fill_tokens(state.tokens);
    state.outputs.start(submission, state.plan, state.tokens, state.slots);
  }
  if (dry) return Chained::dry;
  std::uint32_t head_row = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    if (!submission.running(state.chain_rows[i])) continue;
    state.outputs.take_hidden(head_row, {});
    state.outputs.take_choice(head_row++, ids[i]);
  }
  state.outputs.finish();
  submission.finish_step();
  return Chained::taken;
}

}  // namespace inferno
