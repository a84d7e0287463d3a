#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "backend/cpu/parallel/policy.hpp"
#include "backend/cpu/parallel/thread_places.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace inferno::cpu {
namespace {

/// How long a waiting thread spins before it sleeps. Longer than the gap between two operations of a decode
/// step, and between two steps (choosing a token takes tens of microseconds); so short that an idle process
/// shows no CPU time.
constexpr auto kSpinTime = std::chrono::microseconds(400);
/// Reading the clock costs as much as many pauses.
constexpr int kPausesPerClock = 64;
/// Who has spun this long gives its core to whoever wants it, for it may be the thread that is waited for.
constexpr auto kSelfishSpin = std::chrono::microseconds(50);
/// A thread that never sleeps keeps its core until the next tick of the system's clock, up to 4 ms, however
/// short the work of those who wait for the core: a server's answers would leave that much later. So threads
/// that compute give way this often. If nobody waits, it costs a fifth of a microsecond.
constexpr auto kTurn = std::chrono::microseconds(500);
/// Operations between two looks at the clock: those of the smallest models take a microsecond.
constexpr std::uint32_t kOperationsPerClock = 8;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A thread of a pool, as the system sees it: it keeps away from the others, and lets whoever waits for its
/// core have it for a moment when it has been used for long.
class Turn {
 public:
  Turn(ThreadPlaces& places, unsigned thread) : places_(&places), thread_(thread) {}

  void end_operation() {
    if (++operations_ % kOperationsPerClock != 0) return;
    places_->keep_apart(thread_);
    const auto now = std::chrono::steady_clock::now();
    if (now - began_ < kTurn) return;
    std::this_thread::yield();
    began_ = std::chrono::steady_clock::now();
  }

  /// Spins until `done()` or the time is over; whether it is done.
  template <typename Condition>
  bool spin_until(const Condition& done, std::chrono::nanoseconds limit) {
    if (done()) return true;
    if (limit.count() == 0) return false;
    ThreadPlaces::Doubt doubt;
    const auto start = std::chrono::steady_clock::now();
    auto spun = std::chrono::nanoseconds(0);
    while (spun < limit) {
      for (int i = 0; i < kPausesPerClock; ++i) {
        pause();
        if (done()) return true;
      }
      spun = std::chrono::steady_clock::now() - start;
      if (spun > kSelfishSpin) {
        places_->keep_apart(thread_);
        places_->help(thread_, doubt);
        std::this_thread::yield();
      }
    }
    return false;
  }

  /// Runs `wait`, which blocks.
  template <typename Wait>
  void sleep(const Wait& wait) {
    places_->leave(thread_);
    wait();
    places_->keep_apart(thread_);
  }

 private:
  ThreadPlaces* places_;
  unsigned thread_;
  std::chrono::steady_clock::time_point began_;
  std::uint32_t operations_ = 0;
};

/// Every operation is an epoch. Its parts are dealt to the threads in runs; a thread takes those of its own
/// deck from the front and then, from the back, what is left in the others': a worker that the system has not
/// woken yet, or not given a core, holds up nobody, and where one core reads memory faster than the other it
/// reads more. (Fixed parts were tried: on two cores with 64 threads each operation then waits for 63
/// wake-ups, and on two cores that shared their memory's bandwidth 14 to 20 a tenth of it was lost.)
class PoolPolicy : public ParallelPolicy {
 public:
  PoolPolicy(unsigned threads, unsigned available)
      : spin_time_(threads <= available ? std::chrono::nanoseconds(kSpinTime) : std::chrono::nanoseconds(0)),
        decks_(threads),
        places_(threads, threads <= available),
        turn_(places_, 0) {
    workers_.reserve(threads - 1);
    try {
      for (unsigned thread = 1; thread < threads; ++thread) {
        workers_.emplace_back([this, thread] { work(thread); });
      }
    } catch (...) {  // the system gives no more threads: end those that run
      stop();
      throw;
    }
  }

  ~PoolPolicy() override { stop(); }

  unsigned threads() const override { return static_cast<unsigned>(decks_.size()); }

  void run(const Task& task, unsigned parts_per_thread) override {
    if (workers_.empty()) return task(0, 1);
    task_ = &task;
    parts_ = threads() * parts_per_thread;
    remaining_.store(parts_, std::memory_order_relaxed);
    const auto epoch = epoch_.load(std::memory_order_relaxed) + 1;
    for (unsigned thread = 0; thread < threads(); ++thread) {
      const auto first = thread * parts_per_thread;
      decks_[thread].state.store(Deck::pack({epoch, first, first + parts_per_thread}),
                                 std::memory_order_relaxed);
    }
    epoch_.store(epoch);
    // Sequentially consistent on both sides: either this sees the sleeper, or the sleeper sees the new epoch.
    if (sleepers_.load() > 0) epoch_.notify_all();
    take_parts(0, epoch);
    const auto finished = [this] { return remaining_.load(std::memory_order_acquire) == 0; };
    turn_.end_operation();
    if (turn_.spin_until(finished, spin_time_)) return;
    turn_.sleep([this] {
      for (auto left = remaining_.load(std::memory_order_acquire); left != 0;
           left = remaining_.load(std::memory_order_acquire)) {
        remaining_.wait(left, std::memory_order_acquire);
      }
    });
  }

 private:
  /// Parts of one epoch that nobody has begun, [first, end). In one word, so that a thread that comes late
  /// takes nothing of another epoch; on a line of its own, so that threads do not fight over it.
  struct alignas(64) Deck {
    struct State {
      std::uint32_t epoch;
      std::uint32_t first;
      std::uint32_t end;
    };
    static constexpr unsigned kBits = 16;
    static_assert(kMaxThreads * kMaxPartsPerThread < 1U << kBits);
    static std::uint64_t pack(const State& state) {
      return std::uint64_t{state.epoch} << (2 * kBits) | std::uint64_t{state.first} << kBits | state.end;
    }
    static State unpack(std::uint64_t word) {
      return {static_cast<std::uint32_t>(word >> (2 * kBits)), static_cast<std::uint16_t>(word >> kBits),
              static_cast<std::uint16_t>(word)};
    }

    std::atomic<std::uint64_t> state = 0;
  };

  void stop() {
    stopping_ = true;
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  void work(unsigned thread) {
    std::uint32_t seen = 0;
    Turn turn(places_, thread);
    while (true) {
      const auto changed = [this, seen] { return epoch_.load(std::memory_order_acquire) != seen; };
      if (!turn.spin_until(changed, spin_time_)) {
        turn.sleep([&] {
          sleepers_.fetch_add(1);
          while (!changed()) epoch_.wait(seen);
          sleepers_.fetch_sub(1);
        });
      }
      if (stopping_) return;
      seen = epoch_.load(std::memory_order_acquire);
      take_parts(thread, seen);
      turn.end_operation();
    }
  }

  /// Claims a part of `deck`; false if none of this epoch is left.
  static bool claim(Deck& deck, std::uint32_t epoch, bool own, unsigned& part) {
    auto word = deck.state.load(std::memory_order_acquire);
    while (true) {
      auto state = Deck::unpack(word);
      if (state.epoch != epoch || state.first == state.end) return false;
      part = own ? state.first++ : --state.end;
      if (deck.state.compare_exchange_weak(word, Deck::pack(state), std::memory_order_acq_rel)) return true;
    }
  }

  void take_parts(unsigned thread, std::uint32_t epoch) {
    std::uint32_t done = 0;
    places_.begin(thread);
    for (unsigned i = 0; i < threads(); ++i) {
      auto& deck = decks_[(thread + i) % threads()];
      unsigned part = 0;
      while (claim(deck, epoch, i == 0, part)) {
        // Only a claimed part keeps the operation, and with it the task, alive.
        (*task_)(part, parts_);
        ++done;
      }
    }
    places_.end(thread);
    if (done == 0) return;
    if (remaining_.fetch_sub(done, std::memory_order_acq_rel) == done && thread != 0) remaining_.notify_one();
  }

  std::chrono::nanoseconds spin_time_;
  std::vector<Deck> decks_;
  ThreadPlaces places_;
  Turn turn_;  // of the thread that calls run()
  const Task* task_ = nullptr;
  unsigned parts_ = 0;
  alignas(64) std::atomic<std::uint32_t> epoch_ = 0;
  alignas(64) std::atomic<std::uint32_t> remaining_ = 0;
  alignas(64) std::atomic<std::uint32_t> sleepers_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace

std::unique_ptr<ParallelPolicy> make_pool_policy(unsigned threads, unsigned available) {
  return std::make_unique<PoolPolicy>(threads, available);
}

}  // namespace inferno::cpu
