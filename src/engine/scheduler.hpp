#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/served_request.hpp"
#include "engine/step_budget.hpp"
#include "kv/block_pool.hpp"
#include "kv/prefix_tree.hpp"

namespace inferno {

struct SchedulerSettings {
  std::uint32_t max_rows = 64;
  std::uint32_t step_tokens = 512;
  double step_stretch = 2;
  std::uint32_t block_size = 16;
  std::uint32_t blocks = 0;
  std::uint32_t lookahead = 32;
  bool prefix_cache = true;
  std::uint64_t hash_seed = 0;
};

/// One request's share of a step: its tokens [first, first + count).
struct ScheduledRow {
  ServedRequest* request = nullptr;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool decodes = false;  ///< a token of its own in, the next one out
  /// Whether its last known token is among them: what comes next can be chosen.
  bool completes() const { return first + count == request->sequence.size(); }
};

struct SchedulerCounts {
  std::uint64_t cache_hits = 0, cache_misses = 0, cached_prompt_tokens = 0;
  std::uint64_t evictions = 0, pauses = 0, stalls = 0;
  std::uint64_t prompt_tokens = 0, prefilled_tokens = 0, recomputed_tokens = 0;
};

/// Who takes part in the next step, and with which blocks. Knows no executor: it is told what was written.
///
/// - Order is by priority, then arrival. Who waits starts in this order and nobody overtakes, except those
/// who
///   wait for a prefix that a running request is computing: others go first meanwhile.
/// - A request that starts takes the blocks of all its known tokens at once, so a prompt never runs out of
/// blocks
///   halfway. It starts if there is then room for the next tokens of all (`lookahead`).
/// - A request that decodes and finds no block takes one from the prefix cache; if there is none, the last in
///   the order is paused: its blocks go to the prefix cache and it starts again later, taking over what of
///   them is still there. The first in the order always goes on, so there is always progress.
/// - Of the prompt tokens of a step, the first in the order has half; the rest goes to those who need the
/// fewest.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerSettings& settings);
  ~Scheduler();

  void add(std::unique_ptr<ServedRequest> request);
  /// The request of this id, wherever it is; it gives back what it holds. nullptr: there is none.
  std::unique_ptr<ServedRequest> remove(std::uint64_t id);
  /// Any request, to be removed; nullptr: there is none.
  ServedRequest* any() const;
  /// nullptr: there is none.
  ServedRequest* find(std::uint64_t id) const;
  /// Those that take part in steps.
  const std::vector<std::unique_ptr<ServedRequest>>& running_requests() const { return running_; }
  /// It waits for its consumer from now on, and gives back what it holds.
  void stall(std::uint64_t id);
  void resume(std::uint64_t id);
  /// Those that wait for their consumers, the one that has waited longest first.
  const std::vector<std::unique_ptr<ServedRequest>>& stalled() const { return stalled_; }

  bool has_work() const { return !running_.empty() || !waiting_.empty(); }
  /// Starts those that wait and have room.
  void start_waiting();
  /// The next step of those that run; empty if there is nothing to do. Requests that await their constraint
  /// take part with what they can do without it. Valid until anything else is called.
  const std::vector<ScheduledRow>& form_rows();
  /// Both.
  const std::vector<ScheduledRow>& form_step();
  /// A row of the step was run: the cache now holds the request's tokens up to `length`.
  void written(ServedRequest& request, std::uint32_t length);
  /// All that was written is lost: everybody waits again.
  void lose_cache();

  StepBudget& budget() { return budget_; }
  const SchedulerCounts& counts() const { return counts_; }
  std::uint32_t started_since_last() { return std::exchange(started_, 0); }

  std::uint32_t queued() const;
  std::uint32_t paused() const { return static_cast<std::uint32_t>(waiting_.size()) - queued(); }
  std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  std::uint32_t blocks_free() const { return pool_.available(); }
  std::uint32_t blocks_cached() const { return tree_ ? tree_->evictable() : 0; }

 private:
  /// By priority, then arrival.
  struct Place {
    std::int64_t behind = 0;  // -priority
    std::uint64_t id = 0;
    auto operator<=>(const Place&) const = default;
  };
  static Place place_of(const ServedRequest& request) {
    return {-std::int64_t{request.priority}, request.id};
  }
  enum class Verdict { starts, waits_for_prefix, no_room };

  std::uint32_t blocks_for(std::uint32_t positions) const;
  std::uint32_t available() const;
  bool take_blocks(ServedRequest& request, std::uint32_t positions);
  Verdict try_start(ServedRequest& request);
  std::uint64_t growth(const ServedRequest& request, std::uint32_t held, std::uint32_t lookahead) const;
  void start(ServedRequest& request, std::uint32_t taken_over);
  void promise_rest(ServedRequest& request);
  void pause_last();
  void add_decoding_rows();
  void add_prompt_rows();
  void give_back(ServedRequest& request);
  void enqueue(std::unique_ptr<ServedRequest> request);
  bool uses_tree(const ServedRequest& request) const { return tree_ && request.use_prefix_cache; }
  static std::span<const std::uint32_t> path(const ServedRequest& request, std::size_t from = 0);

  SchedulerSettings settings_;
  BlockPool pool_;
  std::unique_ptr<PrefixTree> tree_;  // nullptr: no prefix cache
  StepBudget budget_;
  std::map<Place, std::unique_ptr<ServedRequest>> waiting_;
  std::vector<std::unique_ptr<ServedRequest>> running_;  // in order
  std::vector<std::unique_ptr<ServedRequest>> stalled_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<ScheduledRow> rows_;
  std::vector<std::uint32_t> found_;          // scratch
  std::vector<ServedRequest*> prompts_;       // scratch
  std::vector<std::uint32_t> prompt_shares_;  // scratch
  SchedulerCounts counts_;
  std::uint32_t started_ = 0;
  std::uint32_t unstarted_ = 0;  // of waiting_
};

}  // namespace inferno
