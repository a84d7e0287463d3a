#include "server/api/workers.hpp"

#include <algorithm>
#include <utility>

namespace inferno::api {

Workers::Workers(unsigned threads, std::size_t most_waiting)
    : most_waiting_(most_waiting), most_large_(std::max(threads, 2U) - 1) {
  for (unsigned i = 0; i < std::max(threads, 1U); ++i) threads_.emplace_back([this] { work(); });
}

Workers::~Workers() {
  std::deque<Job> small;
  std::deque<Job> large;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    small.swap(small_);
    large.swap(large_);
  }
  there_is_something_.notify_all();
  small.clear();  // not with the lock held: what jobs hold may do anything when it is let go
  large.clear();
  for (auto& thread : threads_) thread.join();
}

bool Workers::add(Job job, bool is_large) {
  const std::lock_guard lock(mutex_);
  if (stopped_ || small_.size() + large_.size() >= most_waiting_) return false;
  (is_large ? large_ : small_).push_back(std::move(job));
  // With the lock held: once the job is done all this may be gone.
  there_is_something_.notify_one();
  return true;
}

std::deque<Workers::Job>* Workers::next() {
  // One large job goes on at any time, so that small ones cannot keep them from ever being run; beyond that
  // small ones go first.
  if (!large_.empty() && running_large_ == 0) return &large_;
  if (!small_.empty()) return &small_;
  if (!large_.empty() && running_large_ < most_large_) return &large_;
  return nullptr;
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    std::deque<Job>* queue = nullptr;
    there_is_something_.wait(lock, [&] { return stopped_ || (queue = next()) != nullptr; });
    if (stopped_) return;
    const bool is_large = queue == &large_;
    auto job = std::move(queue->front());
    queue->pop_front();
    if (is_large) ++running_large_;
    lock.unlock();
    job();
    job = nullptr;  // what it holds is let go before the next one begins
    lock.lock();
    if (is_large) {
      --running_large_;
      there_is_something_.notify_one();
    }
  }
}

}  // namespace inferno::api
