#include "engine/inbox.hpp"

#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "engine/serving_engine.hpp"

namespace inferno {

void Inbox::submit(std::vector<std::unique_ptr<ServedRequest>> requests) {
  const auto count = static_cast<std::uint32_t>(requests.size());
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.empty()) throw EngineStopped(closed_);
    // Rows that are free will be taken within a step: who finds one does not wait in the queue.
    const auto started = alive_ - waiting_;
    const auto free_rows = started < max_rows_ ? max_rows_ - started : 0;
    if (std::uint64_t{waiting_} + count > std::uint64_t{max_queue_} + free_rows) {
      ++refused_;
      throw QueueFull(
          fmt::format("{} requests are running or waiting, at most {} run and {} wait; try again later",
                      alive_, max_rows_, max_queue_));
    }
    for (auto& request : requests) {
      request->id = next_id_++;
      request->channel->set_id(request->id);
    }
    mail_.requests.insert(mail_.requests.end(), std::make_move_iterator(requests.begin()),
                          std::make_move_iterator(requests.end()));
    waiting_ += count;
    alive_ += count;
    has_mail_ = true;
  }
  mail_came_.notify_one();
}

void Inbox::cancel(std::uint64_t id, RequestEnd end) {
  {
    const std::lock_guard lock(mutex_);
    mail_.cancelled.emplace_back(id, end);
    has_mail_ = true;
  }
  mail_came_.notify_one();
}

void Inbox::resume(std::uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    mail_.resumed.push_back(id);
    has_mail_ = true;
  }
  mail_came_.notify_one();
}

void Inbox::answer(std::uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    mail_.answered.push_back(id);
    has_mail_ = true;
  }
  mail_came_.notify_one();
}

void Inbox::close(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (closed_.empty()) closed_ = reason;
}

void Inbox::stop() {
  {
    const std::lock_guard lock(mutex_);
    mail_.stop = true;
    has_mail_ = true;
  }
  mail_came_.notify_one();
}

bool Inbox::wait_until_idle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return became_idle_.wait_for(lock, timeout, [this] { return alive_ == 0 && untold_ == 0; });
}

std::uint64_t Inbox::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

std::uint64_t Inbox::submitted() const {
  const std::lock_guard lock(mutex_);
  return next_id_ - 1;
}

std::uint32_t Inbox::unseen() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::uint32_t>(mail_.requests.size());
}

void Inbox::collect(Mail& mail, bool idle, std::optional<Clock::time_point> until) {
  mail.requests.clear();
  mail.cancelled.clear();
  mail.resumed.clear();
  mail.answered.clear();
  std::unique_lock lock(mutex_);
  const auto came = [this] { return has_mail_; };
  if (idle && until) {
    mail_came_.wait_until(lock, *until, came);
  } else if (idle) {
    mail_came_.wait(lock, came);
  }
  if (!has_mail_) return;
  has_mail_ = false;
  std::swap(mail.requests, mail_.requests);
  std::swap(mail.cancelled, mail_.cancelled);
  std::swap(mail.resumed, mail_.resumed);
  std::swap(mail.answered, mail_.answered);
  mail.stop = mail_.stop;
}

void Inbox::account(std::uint32_t started, std::uint32_t ended) {
  if (started == 0 && ended == 0) return;
  const std::lock_guard lock(mutex_);
  waiting_ -= started;
  alive_ -= ended;
  untold_ += ended;
}

void Inbox::told() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(untold_, 0) > 0 && alive_ == 0) became_idle_.notify_all();
}

}  // namespace inferno
