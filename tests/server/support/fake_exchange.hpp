#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "server/http/exchange.hpp"

namespace inferno::test {

/// A thread that runs calls one after the other: the strand of all exchanges of a test.
class Strand {
 public:
  Strand();
  /// Runs what is there and ends.
  ~Strand();
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;
  void post(std::function<void()> call);
  /// Waits until everything that was posted before has run.
  void settle();

 private:
  std::mutex mutex_;
  std::condition_variable there_is_something_;
  std::deque<std::function<void()>> calls_;
  bool ends_ = false;
  std::thread thread_;
};

/// One event of a stream: what follows "data: ".
using Events = std::vector<std::string>;

/// What a client got.
struct Reply {
  unsigned status = 0;
  std::string content_type;
  std::vector<http::Header> headers;
  std::string body;
  bool is_stream = false;  ///< begin, write…, end
  bool is_complete = false;

  std::string header(std::string_view name) const;
  /// The body as JSON; fails the test if it is none.
  nlohmann::json json() const;
  /// The events of a stream; fails the test if something else stands in it.
  Events events() const;
  /// The events as JSON, without [DONE] at the end; fails the test if that is missing (unless `is_cut`).
  std::vector<nlohmann::json> chunks(bool is_cut = false) const;
};

/// An exchange without a connection. Fails the test if the rules of Exchange are broken: calls out of order,
/// an answer that is never given.
class FakeExchange : public http::Exchange, public std::enable_shared_from_this<FakeExchange> {
 public:
  FakeExchange(Strand& strand, http::Request request);
  ~FakeExchange() override;

  const http::Request& request() const override { return request_; }
  void respond(http::Response response) override;
  void begin(http::Response response) override;
  void write(std::string piece) override;
  void end() override;
  std::size_t unsent() const override;
  void on_drained(std::function<void()> call) override;
  void on_gone(std::function<void()> call) override;
  bool was_cut_off() const override;
  void add_note(const std::string& note) override;
  void post(std::function<void()> call) override;

  // The client's side.

  /// Waits for the whole answer; fails the test after a minute.
  Reply wait();
  /// Waits until so many bytes of a body have come, or the whole answer.
  Reply wait_for_bytes(std::size_t count);
  Reply so_far() const;
  /// Stops reading: what is written from now on stays unsent.
  void stop_reading();
  /// Reads everything that is there, and goes on or not.
  void read(bool goes_on);
  /// Goes away; `cut_off`: because it read nothing.
  void leave(bool cut_off = false);
  /// What the log is told.
  std::string note() const;
  /// That the client left, or the whole exchange, without an answer is no fault.
  void expect_no_answer();

 private:
  void append(std::string_view piece);

  Strand& strand_;
  http::Request request_;
  mutable std::mutex mutex_;
  std::condition_variable news_;
  Reply reply_;
  bool begun_ = false, reads_ = true, gone_ = false, may_be_unanswered_ = false;
  bool cut_off_ = false;
  std::string note_;
  std::size_t unsent_ = 0;
  std::function<void()> drained_, left_;
};

}  // namespace inferno::test
