#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/constraint_task.hpp"

namespace inferno {

/// Threads beside the serving loop that work out what constraints allow. They yield to all other threads of
/// the process, and a few of them at most work at once, so a grammar that takes long costs the steps of
/// others next to nothing. Tasks that take long take turns: a short one waits for a slice of each of those
/// before it, never for all of their work.
class ConstraintWorkers {
 public:
  /// `at_once`: threads that work at the same time, at least 1. `answered` is called from any of them with
  /// the id of a request whose task is done; not for tasks that were abandoned.
  ConstraintWorkers(std::uint32_t at_once, std::function<void(std::uint64_t)> answered);
  /// Waits until the calls that are under way have returned, and leaves all others undone.
  ~ConstraintWorkers();
  ConstraintWorkers(const ConstraintWorkers&) = delete;
  ConstraintWorkers& operator=(const ConstraintWorkers&) = delete;

  /// False if there is no thread to be had.
  bool add(std::shared_ptr<ConstraintTask> task);

 private:
  class Turn;
  /// Waits for a place among those that work: a task that nobody has begun, or a turn that gave way.
  struct Waiter {
    std::shared_ptr<ConstraintTask> task;
    Turn* turn = nullptr;
  };
  /// A turn that gave way keeps its thread.
  static constexpr std::size_t kMostThreads = 64;

  void serve();
  void work(ConstraintTask& task);
  void give_way(Turn& turn);
  void dispatch();
  bool find_thread();

  const std::uint32_t at_once_;
  const std::function<void(std::uint64_t)> answered_;

  std::mutex mutex_;
  std::condition_variable task_is_ready_;
  std::deque<Waiter> waiting_;                         // for a place, in order
  std::deque<std::shared_ptr<ConstraintTask>> ready_;  // have a place and wait for a thread to wake up
  std::uint32_t working_ = 0;                          // places taken
  std::size_t idle_ = 0;                               // threads without a task
  std::vector<std::thread> threads_;
  std::atomic<bool> stop_ = false;  // written with the mutex held
};

}  // namespace inferno
