#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace inferno::api {

/// A few threads for what takes too long on a connection's thread: reading bodies, templates, long prompts.
/// Large jobs leave at least one thread to the small ones (if there are two or more), so that a prompt of a
/// megabyte holds up nobody but its like.
class Workers {
 public:
  using Job = std::function<void()>;

  /// `threads` at least 1; `most_waiting` jobs may wait beside those that run.
  Workers(unsigned threads, std::size_t most_waiting);
  /// Waits for the jobs that run; those that wait are dropped.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// False, and nothing happens, if too many wait. A job must not throw.
  bool add(Job job, bool is_large);

 private:
  void work();
  /// With the lock held: the queue to take from now; nullptr: there is nothing to do.
  std::deque<Job>* next();

  std::size_t most_waiting_;
  std::size_t most_large_;  ///< that run at once
  std::mutex mutex_;
  std::condition_variable there_is_something_;
  std::deque<Job> small_, large_;
  std::size_t running_large_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace inferno::api
