#include "engine/constraint_workers.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "platform/thread_priority.hpp"

namespace inferno {
namespace {

using Clock = std::chrono::steady_clock;

/// Longer than almost every mask takes, so that turns are rare.
constexpr std::chrono::milliseconds kSlice{1};
/// Between two looks at what another thread is working out.
constexpr std::chrono::microseconds kBetweenLooks{100};

}  // namespace

class ConstraintWorkers::Turn : public ConstraintTurn {
 public:
  Turn(ConstraintWorkers& workers, const ConstraintTask& task) : workers_(workers), task_(task) {}

  void go_on() override {
    check();
    if (Clock::now() - since_ < kSlice) return;
    workers_.give_way(*this);
    since_ = Clock::now();
    check();
  }

  void give_way() override {
    std::this_thread::sleep_for(kBetweenLooks);
    workers_.give_way(*this);
    since_ = Clock::now();
    check();
  }

  // Of give_way, with the mutex held.
  std::condition_variable may_go_on;
  bool has_place = true;

 private:
  void check() const {
    if (task_.abandoned || workers_.stop_) throw TurnOver();
  }

  ConstraintWorkers& workers_;
  const ConstraintTask& task_;
  Clock::time_point since_ = Clock::now();
};

ConstraintWorkers::ConstraintWorkers(std::uint32_t at_once, std::function<void(std::uint64_t)> answered)
    : at_once_(std::max(at_once, 1U)), answered_(std::move(answered)) {}

ConstraintWorkers::~ConstraintWorkers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (const auto& waiter : waiting_) {
      if (waiter.turn != nullptr) waiter.turn->may_go_on.notify_one();
    }
  }
  task_is_ready_.notify_all();
  for (auto& thread : threads_) thread.join();
}

bool ConstraintWorkers::add(std::shared_ptr<ConstraintTask> task) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back({std::move(task), nullptr});
  dispatch();
  if (!threads_.empty()) return true;
  waiting_.pop_back();
  return false;
}

/// Gives places that are free to those who wait for one. The mutex is held.
void ConstraintWorkers::dispatch() {
  while (!stop_ && working_ < at_once_ && !waiting_.empty()) {
    auto next = waiting_.begin();
    if (next->turn == nullptr && !find_thread()) {
      // All threads belong to turns that gave way: one of them has to finish first.
      next = std::find_if(next, waiting_.end(), [](const Waiter& waiter) { return waiter.turn != nullptr; });
      if (next == waiting_.end()) return;
    }
    auto waiter = std::move(*next);
    waiting_.erase(next);
    ++working_;
    if (waiter.turn != nullptr) {
      waiter.turn->has_place = true;
      waiter.turn->may_go_on.notify_one();
    } else {
      ready_.push_back(std::move(waiter.task));
      task_is_ready_.notify_one();
    }
  }
}

/// Whether a thread will take one more task that is ready.
bool ConstraintWorkers::find_thread() {
  if (idle_ > ready_.size()) return true;
  if (threads_.size() >= kMostThreads) return false;
  try {
    threads_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {
    return false;  // those that are there do it
  }
  ++idle_;
  return true;
}

void ConstraintWorkers::serve() {
  lower_thread_priority();
  std::unique_lock lock(mutex_);
  while (true) {
    task_is_ready_.wait(lock, [this] { return stop_ || !ready_.empty(); });
    if (stop_) return;
    auto task = std::move(ready_.front());
    ready_.pop_front();
    --idle_;
    lock.unlock();
    work(*task);
    task.reset();
    lock.lock();
    if (stop_) return;
    --working_;
    ++idle_;
    dispatch();
  }
}

void ConstraintWorkers::work(ConstraintTask& task) {
  const auto request = task.request;
  try {
    Turn turn(*this, task);
    turn.go_on();
    task.work(turn);
  } catch (const TurnOver&) {
    return;
  }
  answered_(request);
}

void ConstraintWorkers::give_way(Turn& turn) {
  std::unique_lock lock(mutex_);
  if (waiting_.empty() || stop_) return;
  turn.has_place = false;
  waiting_.push_back({nullptr, &turn});
  --working_;
  dispatch();
  turn.may_go_on.wait(lock, [&] { return turn.has_place || stop_; });
}

}  // namespace inferno
