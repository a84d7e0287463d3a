#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "backend/cpu/parallel/policy.hpp"

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

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `done()` or the time is over; whether it is done.
template <typename Condition>
bool spin_until(const Condition& done, std::chrono::nanoseconds limit) {
  if (done()) return true;
  if (limit.count() == 0) return false;
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < kPausesPerClock; ++i) {
      pause();
      if (done()) return true;
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

/// Every operation is an epoch. A thread takes a part by raising the part's claim from the last epoch to this
/// one, its own part first, then those that nobody has begun: a worker that the system has not woken yet, or
/// not given a core, holds up nobody. (Fixed parts were tried on two cores with 64 threads: each operation
/// then waits for 63 wake-ups.)
class PoolPolicy : public ParallelPolicy {
 public:
  PoolPolicy(unsigned threads, unsigned available)
      : spin_time_(threads <= available ? std::chrono::nanoseconds(kSpinTime) : std::chrono::nanoseconds(0)),
        claims_(threads) {
    workers_.reserve(threads - 1);
    try {
      for (unsigned part = 1; part < threads; ++part) {
        workers_.emplace_back([this, part] { work(part); });
      }
    } catch (...) {  // the system gives no more threads: end those that run
      stop();
      throw;
    }
  }

  ~PoolPolicy() override { stop(); }

  unsigned threads() const override { return static_cast<unsigned>(claims_.size()); }

  void run(const Task& task) override {
    if (workers_.empty()) return task(0, 1);
    task_ = &task;
    remaining_.store(threads(), std::memory_order_relaxed);
    const auto epoch = epoch_.fetch_add(1) + 1;
    // Sequentially consistent on both sides: either this sees the sleeper, or the sleeper sees the new epoch.
    if (sleepers_.load() > 0) epoch_.notify_all();
    take_parts(0, epoch);
    const auto finished = [this] { return remaining_.load(std::memory_order_acquire) == 0; };
    if (spin_until(finished, spin_time_)) return;
    for (auto left = remaining_.load(std::memory_order_acquire); left != 0;
         left = remaining_.load(std::memory_order_acquire)) {
      remaining_.wait(left, std::memory_order_acquire);
    }
  }

 private:
  /// A claim on a line of its own, so that threads do not fight over it.
  struct alignas(64) Claim {
    std::atomic<std::uint32_t> epoch = 0;
  };

  void stop() {
    stopping_ = true;
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (auto& worker : workers_) worker.join();
  }

  void work(unsigned own_part) {
    std::uint32_t seen = 0;
    while (true) {
      const auto changed = [this, seen] { return epoch_.load(std::memory_order_acquire) != seen; };
      if (!spin_until(changed, spin_time_)) {
        sleepers_.fetch_add(1);
        while (!changed()) epoch_.wait(seen);
        sleepers_.fetch_sub(1);
      }
      if (stopping_) return;
      seen = epoch_.load(std::memory_order_acquire);
      take_parts(own_part, seen);
    }
  }

  void take_parts(unsigned own_part, std::uint32_t epoch) {
    const auto parts = threads();
    for (unsigned i = 0; i < parts; ++i) {
      const unsigned part = (own_part + i) % parts;
      auto expected = epoch - 1;
      if (!claims_[part].epoch.compare_exchange_strong(expected, epoch, std::memory_order_acq_rel)) continue;
      // Only a claimed part keeps the operation, and with it the task, alive.
      (*task_)(part, parts);
      if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1 && own_part != 0) remaining_.notify_one();
    }
  }

  std::chrono::nanoseconds spin_time_;
  std::vector<Claim> claims_;
  const Task* task_ = nullptr;
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
