#pragma once

#include <memory>
#include <string_view>

#include "backend/cpu/parallel/task.hpp"

namespace inferno::cpu {

/// More threads than this help on no machine; the number may come from a script.
inline constexpr unsigned kMaxThreads = 1024;
inline constexpr unsigned kMaxPartsPerThread = 8;

/// How an operation's parts are spread over threads. A policy splits rows, never a sum, so no result depends
/// on it.
class ParallelPolicy {
 public:
  virtual ~ParallelPolicy() = default;
  ParallelPolicy() = default;
  ParallelPolicy(const ParallelPolicy&) = delete;
  ParallelPolicy& operator=(const ParallelPolicy&) = delete;

  virtual unsigned threads() const = 0;
  /// Runs task(part, parts) for every part and returns when all are done; what they wrote is visible then.
  /// One caller at a time. There are threads() parts, so a part may own the scratch of its number.
  void run(const Task& task) { run(task, 1); }
  /// The same with up to `parts_per_thread` (1 to kMaxPartsPerThread) times as many parts, for tasks that
  /// need no scratch: threads that are faster may take more of them.
  virtual void run(const Task& task, unsigned parts_per_thread) = 0;
};

/// Everything in the caller's thread: backend `simd`.
std::unique_ptr<ParallelPolicy> make_serial_policy();

/// Threads started and joined for every operation: backend `parallel`, the baseline that shows what per-job
/// overhead costs.
std::unique_ptr<ParallelPolicy> make_spawning_policy(unsigned threads);

/// A persistent pool: backend `pool`. Idle workers spin for a bounded time, then sleep. `available` is how
/// many threads can really run at once; with more threads than that nobody spins.
std::unique_ptr<ParallelPolicy> make_pool_policy(unsigned threads, unsigned available);

}  // namespace inferno::cpu
