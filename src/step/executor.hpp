#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inferno/error.hpp>
#include <inferno/sampling.hpp>

#include "sampling/sampler.hpp"
#include "step/batch.hpp"
#include "step/observer.hpp"
#include "step/result.hpp"

namespace inferno {

/// The device is gone; its cache with it. Every later call throws the same. The sequences can go on with
/// another executor by recomputing, or importing exported blocks.
class DeviceLost : public Error {
 public:
  using Error::Error;
};

/// What an executor can do. Options that one lacks are declared here, not discovered by failing.
struct Capabilities {
  std::string backend;    ///< "scalar", "pool", "vulkan", ...
  std::string device;     ///< what it runs on, for people: "1 thread, AVX2", "NVIDIA H200"
  bool contract = false;  ///< computes the arithmetic contract (scalar, the float oracle, does not)
  bool asynchronous =
      false;  ///< submissions run while the host does other things; if not, wait and poll run them
  bool multi_step = false;  ///< max_steps above 1
  bool token_references = false;
  bool sampling_slots = false;                          ///< slots other than kGreedySlot
  bool token_masks = false;                             ///< SlotState::allowed
  bool logits = false, scores = false, hidden = false;  ///< output kinds beside token
  bool block_transfer = false;                          ///< export_blocks and import_blocks
  bool observation = false;                             ///< SubmitOptions::observer
  std::uint32_t referable_tickets = 0;  ///< a reference may name one of this many latest submissions
  std::string cache_format;  ///< exported blocks can be imported where this is equal: "float32", ...
};

/// What an executor must be ready for; everything is allocated when it is reserved, nothing while serving.
struct Limits {
  std::uint32_t max_rows = 1;        ///< R of a batch
  std::uint32_t max_tokens = 512;    ///< T of a batch
  std::uint32_t max_outputs = 512;   ///< O of a batch
  std::uint32_t max_steps = 1;       ///< K of a submission
  std::uint32_t max_context = 1024;  ///< positions of a row
  std::uint32_t block_size = 256;    ///< positions per cache block; divides 256
  std::uint32_t blocks = 4;          ///< cache blocks in all
  std::uint32_t slots = 1;           ///< sampling slots; 0 if every row is to use kGreedySlot
  bool populate = false;  ///< bring all of the cache's memory in at once, where steps would wait for it later
};

/// Bytes that `reserve` takes, for messages and for choosing limits.
struct MemoryNeed {
  std::uint64_t cache_bytes = 0;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t weight_bytes = 0;  ///< what the executor holds beside the mapped file
};

/// How many cache blocks an executor has room for.
struct BlockRoom {
  std::uint64_t blocks = UINT64_MAX;
  std::string bound;  ///< what more would break, for people; empty if nothing is known to
};

/// A slot's sampling state. `prompt` and `generated` are what the sequence holds when the slot is set; from
/// then on the executor counts what it chooses through the slot, so chained steps and references need no
/// host. A slot that was not set since `reserve` is in this struct's initial state: greedy, nothing seen.
struct SlotState {
  SamplingSettings settings;
  std::vector<std::int32_t> prompt;     ///< the sequence's prompt ids (for the repetition penalty)
  std::vector<std::int32_t> generated;  ///< what it generated so far
  /// Bit set over ids, ceil(V / 32) words (bit i % 32 of word i / 32), or empty: all. Holds until the slot is
  /// set again.
  std::vector<std::uint32_t> allowed;
};

struct BlockCopy {
  std::uint32_t source = 0;
  std::uint32_t target = 0;
};

struct SubmitOptions {
  std::uint32_t max_steps = 1;  ///< K: steps chained without asking the host
  StopIds stop_ids;
  OutputSink* sink = nullptr;         ///< must live until the ticket is done
  StageObserver* observer = nullptr;  ///< likewise
  /// True is as good as `cancel`, and may come from a signal handler; likewise.
  const std::atomic<bool>* cancelled = nullptr;
};

/// The seam. Above it: generation loop, scheduler, server, benchmarks; below it: one implementation per
/// backend. One caller at a time, except `cancel`, which any thread may call at any time, and a sink or an
/// observer in its callback.
///
/// Rules every executor keeps (tests/conformance checks them):
/// - Submissions take effect in the order they were made; copies, imports, exports and slot changes come
///   after everything submitted before them.
/// - A row's result depends on its own tokens, positions, cache and slot alone: never on the other rows, on
///   how its prompt was cut into chunks, on which blocks it was given, on threads or on what ran before. Bit
///   for bit.
/// - A batch that breaks a rule or a limit is refused by `submit` (UsageError naming the field and the
///   numbers) and changes nothing; so are slot changes, copies and imports.
/// - max_steps > 1: every row must have exactly one output of kind token, at its last token. Other outputs
///   at a row's last token are repeated in every step; outputs at earlier tokens and scores belong to step 0.
///   Its table must reach position first + tokens + max_steps - 2, its last, which is below max_context.
/// - A row with one output of kind token stops when it chooses one of its stop ids, and what it chooses is
///   counted in its slot's history (the stop id too).
/// - Several outputs of kind token in one row (drafts to verify): output i is chosen as if the row's tokens
///   after the first such output, up to its own, had been generated; the slot's history is not changed and
///   stop ids are not looked at: the host sets the slot anew once it knows what it accepts.
/// - The token chosen for an input at position p is drawn for position p + 1 (`choose`: a stream keyed by
///   seed and position).
/// - A row whose wanted logits or hidden states hold a NaN, or whose mask allows nothing, fails alone, with
///   an error in its result; what its outputs got before that stays.
/// - Before `reserve` has succeeded everything but capabilities, memory_need, limits and cancel throws
///   UsageError.
class Executor {
 public:
  virtual ~Executor() = default;
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  virtual const Capabilities& capabilities() const = 0;
  /// What `reserve(limits)` would take; allocates nothing.
  virtual MemoryNeed memory_need(const Limits& limits) const = 0;
  /// Cache blocks that could be reserved now, with all else as in `limits`; for whoever asks for as many as
  /// are good, not for a certain number. Some memory is left over, for others who share it.
  virtual BlockRoom block_room(const Limits& /*limits*/) const { return {}; }
  /// Allocates for these limits. The cache's content, slots and tickets are lost (the count of tickets goes
  /// on). May be called again. Throws UsageError for limits that make no sense (nothing changed then), Error
  /// with what was needed if the memory cannot be had; the executor is then as it was before the first
  /// reserve.
  virtual void reserve(const Limits& limits) = 0;
  /// What was reserved; all zero before.
  virtual const Limits& limits() const = 0;

  /// Throws UsageError for settings that check_settings refuses, ids outside the vocabulary, a mask of
  /// another size.
  virtual void set_slot(std::uint32_t slot, const SlotState& state) = 0;

  /// Starts a step or K chained ones. Throws UsageError (nothing changed), Error if the device refuses
  /// the submission (nothing changed; try again or give up) or DeviceLost.
  virtual Ticket submit(const StepBatch& batch, const SubmitOptions& options = {}) = 0;
  /// Whether the submission is done. Never blocks for long: an executor that is not asynchronous runs one
  /// model step of the oldest unfinished submission in it. Throws as `wait` does.
  virtual bool poll(Ticket ticket) = 0;
  /// Waits for the submission and hands over its result, once. Throws UsageError for a ticket that is unknown
  /// or was handed over; DeviceLost.
  virtual StepResult wait(Ticket ticket) = 0;
  /// Asks that the submission end soon, after the step that is running at the latest. `wait` still returns
  /// its result; rows that had steps left are `cancelled`. A ticket that is done or unknown is ignored. Never
  /// throws, on a lost device neither.
  virtual void cancel(Ticket ticket) = 0;

  /// Copies whole blocks on the device, in order, as if one after the other.
  virtual void copy_blocks(std::span<const BlockCopy> copies) = 0;
  /// The blocks' content, in the order given, in a self-describing form (cache format, shape, block size).
  virtual std::vector<std::byte> export_blocks(std::span<const std::uint32_t> blocks) = 0;
  /// Fills blocks with what an executor of equal cache_format and the same model exported. Throws UsageError
  /// naming what differs (format, shape, block size, count, length) before anything is written. The bytes are
  /// not trusted, but nothing in them tells two models of one shape apart.
  virtual void import_blocks(std::span<const std::uint32_t> blocks, std::span<const std::byte> bytes) = 0;
};

}  // namespace inferno
