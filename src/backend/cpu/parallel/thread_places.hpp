#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "platform/thread_placement.hpp"

namespace inferno::cpu {

/// Where the threads of a pool run. Number 0 is whoever calls the pool, the others are its workers.
///
/// The system shares processors fairly, a tick of its clock (4 ms) at a time, which is several decode steps
/// of a small model. Two things are set right at once:
/// - It moves threads for reasons that last a moment (a core that becomes idle pulls one from a core that
///   somebody else has taken) and then leaves two of the pool on one core beside an idle one.
/// - A thread of another process takes a core for some milliseconds; the pool's thread waits for it, and the
///   pool's other threads for that thread, on cores that are idle.
/// Threads that are bound to cores for good were rejected: they wait where others could go on.
class ThreadPlaces {
 public:
  /// `apart`: there are processors for all; if not, the system's choice stands.
  ThreadPlaces(unsigned threads, bool apart) : places_(apart ? threads : 0) {}

  /// `thread` begins what others wait for / has done it.
  void begin(unsigned thread) {
    if (places_.empty()) return;
    auto& place = places_[thread];
    place.busy.store(true, kRelaxed);
    const auto handle = ThreadHandle::current();
    if (place.handle.load(kRelaxed) != handle) place.handle.store(handle, kRelaxed);
  }
  void end(unsigned thread) {
    if (!places_.empty()) places_[thread].busy.store(false, kRelaxed);
  }

  /// `thread` is going to sleep: it is in nobody's way.
  void leave(unsigned thread) {
    if (!places_.empty()) places_[thread].processor.store(kNowhere, kRelaxed);
  }

  /// Called by `thread` now and then: where one with a lower number runs, it goes elsewhere. Nanoseconds
  /// unless it does.
  void keep_apart(unsigned thread);

  /// What a thread that waits for others has seen of them.
  struct Doubt {
    unsigned thread = 0;
    std::chrono::nanoseconds run_time = {};
    std::chrono::steady_clock::time_point since;
    bool exists = false;
  };
  /// Called by `waiting` again and again when it has waited long, before it gives its core to whoever wants
  /// it: workers wait for number 0, that for busy workers. One of those that has not run for a while is
  /// brought to this core.
  void help(unsigned waiting, Doubt& doubt);

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;  // hints: nothing else depends on them
  static constexpr int kNowhere = -1;

  struct alignas(64) Place {
    std::atomic<int> processor = kNowhere;
    std::atomic<bool> busy = false;
    std::atomic<ThreadHandle> handle = ThreadHandle();
    std::chrono::steady_clock::time_point moved;  // its own thread's
  };

  int note(unsigned thread);
  bool is_waited_for(unsigned thread) const;

  std::vector<Place> places_;
  std::atomic<bool> helping_ = false;
};

}  // namespace inferno::cpu
