#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/served_request.hpp"

namespace inferno {

/// All that reaches the worker from other threads, under one mutex: new requests, cancellations, consumers
/// that read again, answers of constraints, the wish to stop.
class Inbox {
 public:
  using Clock = std::chrono::steady_clock;

  /// `max_waiting`: requests that may wait here and in the worker's queue. The worker counts `max_rows` more
  /// as started at once, so as many are let in while nothing waits.
  Inbox(std::uint32_t max_queue, std::uint32_t max_rows) : max_queue_(max_queue), max_rows_(max_rows) {}

  // From any thread.

  /// All or none. Gives them their ids. Throws QueueFull or EngineStopped.
  void submit(std::vector<std::unique_ptr<ServedRequest>> requests);
  /// `end`: what it is to be called, cancelled or stalled.
  void cancel(std::uint64_t id, RequestEnd end);
  void resume(std::uint64_t id);
  /// The constraint of this request has answered.
  void answer(std::uint64_t id);
  /// Takes no more requests, for this reason; the first one counts.
  void close(const std::string& reason);
  void stop();
  /// Waits until no request is alive and all are told; false if `timeout` passed before.
  bool wait_until_idle(std::chrono::milliseconds timeout);
  /// Submissions that found the queue full, however many requests each had.
  std::uint64_t refused() const;
  std::uint64_t submitted() const;
  /// Requests that were taken in and that the worker has not seen yet.
  std::uint32_t unseen() const;

  // From the worker.

  struct Mail {
    std::vector<std::unique_ptr<ServedRequest>> requests;
    std::vector<std::pair<std::uint64_t, RequestEnd>> cancelled;
    std::vector<std::uint64_t> resumed;
    std::vector<std::uint64_t> answered;
    bool stop = false;
  };
  /// What has come since the last call, into `mail`, reusing its memory. If `idle`, waits until something
  /// comes, or until `until`.
  void collect(Mail& mail, bool idle, std::optional<Clock::time_point> until);
  /// Of the requests that were taken in, so many now take part in steps or are over, and so many are over.
  void account(std::uint32_t started, std::uint32_t ended);
  /// The consumers of all requests that are over have been told.
  void told();

 private:
  mutable std::mutex mutex_;
  std::condition_variable mail_came_;
  std::condition_variable became_idle_;
  Mail mail_;
  bool has_mail_ = false;
  std::string closed_;  // why; empty while open
  std::uint64_t next_id_ = 1;
  std::uint64_t refused_ = 0;
  std::uint32_t max_queue_;
  std::uint32_t max_rows_;
  std::uint32_t waiting_ = 0;  // never took part in a step
  std::uint32_t alive_ = 0;
  std::uint32_t untold_ = 0;  // over, and their consumers may not know yet
};

}  // namespace inferno
