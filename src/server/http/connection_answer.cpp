// How a connection answers, and how it notices that nobody wants the answer any more.

#include <algorithm>
#include <fmt/format.h>
#include <poll.h>
#include <utility>

#include "server/http/connection.hpp"
#include "server/http/error_response.hpp"
#include "server/http/request_id.hpp"
#include "server/http/response_head.hpp"

namespace inferno::http {
namespace {

/// Stands for "the client left before the answer was complete" in logs and counts.
constexpr unsigned kClientLeft = 499;
/// Small bodies are sent together with what stands before them.
constexpr std::size_t kSmall = std::size_t{16} << 10U;
/// Zeros that may be sent ahead of a chunk's size.
constexpr std::size_t kMostZeros = 12;
/// Between looks for the end of what a client sends that nobody reads for now.
constexpr std::chrono::milliseconds kEndCheck{50};
constexpr std::chrono::milliseconds kFirstProbe{20};
constexpr std::chrono::milliseconds kLastProbePause{8'000};

}  // namespace

/// From here on the request belongs to its answer.
std::shared_ptr<Answer> Connection::begin_answer(bool closes) {
  phase_ = Phase::answering;
  disarm();
  http_1_0_ = parser_ && parser_->is_http_1_0();
  keep_alive_ = !closes;
  Request request = parser_ ? std::move(parser_->request()) : Request{};
  parser_.reset();
  request.peer = peer_;
  request_id_ = request_id(request.header("X-Request-Id"));
  head_only_ = request.method == "HEAD";
  begun_ = streaming_ = complete_ = broken_ = false;
  status_ = 0;
  answer_bytes_ = 0;
  probes_ = 0;
  answer_ = std::make_shared<Answer>(shared_from_this(), std::move(request));
  core_->request_began();
  return answer_;
}

void Connection::dispatch() {
  began_at_ = Clock::now();
  const auto answer = begin_answer(!parser_->keep_alive());
  auto exchange = exchange_of(answer);
  core_->handler(std::move(exchange));
  if (end_seen_ && phase_ == Phase::answering) begin_probing();
}

/// Answers what cannot be read further, and ends the connection.
void Connection::refuse(Response response) {
  began_at_ = Clock::now();
  std::string().swap(input_);
  begin_answer(true)->respond(std::move(response));
  if (end_seen_) watch_for_errors();
}

std::string Connection::head_of(const Response& response, bool streaming, std::size_t length) {
  if (core_->draining) keep_alive_ = false;
  Framing framing{.http_1_0 = http_1_0_, .keep_alive = true};
  if (!streaming) {
    framing.length = length;
  } else {
    framing.chunked = !http_1_0_;
    if (http_1_0_ && !head_only_) keep_alive_ = false;
  }
  framing.keep_alive = keep_alive_;
  auto more = core_->cors.headers(answer_->request().header("Origin"));
  more.push_back({.name = "X-Request-Id", .value = request_id_});
  return response_head(response, framing, more);
}

/// Moves what was written since the last time to what is to be sent: as one piece, whatever it was written
/// in.
void Connection::take_answer() {
  auto taken = answer_->take(output_bytes_);
  std::string piece;
  if (taken.head) {
    begun_ = true;
    streaming_ = taken.streaming;
    status_ = taken.head->status;
    piece = head_of(*taken.head, streaming_, taken.body.size());
    piece.erase(0, std::exchange(probes_, 0));
  }
  const bool has_body = !head_only_ && !is_bodiless(status_);
  if (has_body && !taken.body.empty()) {
    answer_bytes_ += taken.body.size();
    const bool chunked = streaming_ && !http_1_0_;
    if (chunked) {
      fmt::format_to(std::back_inserter(piece), "{:x}\r\n", taken.body.size());
      taken.body += "\r\n";
      probes_ = 0;
    }
    if (piece.size() + taken.body.size() > kSmall) {
      output_bytes_ += piece.size();
      if (!piece.empty()) output_.push_back(std::exchange(piece, {}));
      piece = std::move(taken.body);
    } else {
      piece += taken.body;
    }
  }
  complete_ = taken.complete;
  broken_ = taken.broken;
  if (complete_ && has_body && streaming_ && !http_1_0_) piece += "0\r\n\r\n";
  if (!piece.empty()) {
    output_bytes_ += piece.size();
    output_.push_back(std::move(piece));
  }
}

void Connection::flush() {
  if (phase_ == Phase::closed) return;
  if (phase_ == Phase::answering && answer_ && !complete_ && !broken_) take_answer();
  write_out();
  if (phase_ != Phase::answering) return;
  const auto answer = answer_;
  if (output_.empty() && (complete_ || broken_)) return finish_answer();
  answer->sent(output_bytes_);
}

void Connection::write_out() {
  write_wants_read_ = false;
  while (!output_.empty()) {
    const auto first = std::string_view(output_[0]).substr(output_offset_);
    const auto second = output_.size() > 1 ? std::string_view(output_[1]) : std::string_view();
    const auto result = transport_->write(first, second);
    if (result.status != IoStatus::done) {
      if (result.status == IoStatus::wants_write) return wait_writable();
      write_wants_read_ = result.status == IoStatus::wants_read;
      return write_wants_read_ ? wait_readable() : gone();
    }
    core_->bytes_sent += result.bytes;
    output_bytes_ -= result.bytes;
    output_offset_ += result.bytes;
    while (!output_.empty() && output_offset_ >= output_[0].size()) {
      output_offset_ -= output_[0].size();
      output_.pop_front();
    }
    if (phase_ == Phase::answering) disarm();  // it takes something
  }
}

void Connection::wait_writable() {
  if (phase_ == Phase::answering && deadline_ == Clock::time_point::max()) {
    arm(core_->options.limits.write_time);
  }
  if (write_waiting_) return;
  write_waiting_ = true;
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](const boost::system::error_code& error) {
    self->write_waiting_ = false;
    if (error || self->phase_ == Phase::closed) return;
    self->guarded([&] {
      self->flush();
      if (!self->read_waiting_ && self->phase_ != Phase::closed) self->read_some();
    });
  });
}

void Connection::report(unsigned status) {
  core_->request_ended();
  const auto& on_answered = core_->options.on_answered;
  if (!on_answered) return;
  const std::chrono::duration<double, std::milli> time = Clock::now() - began_at_;
  on_answered({.request = &answer_->request(),
               .status = status,
               .milliseconds = time.count(),
               .body_bytes = answer_bytes_,
               .request_id = request_id_,
               .note = answer_->note()});
}

void Connection::finish_answer() {
  report(broken_ ? kClientLeft : status_);
  answer_.reset();
  core_->bodies_bytes -= std::exchange(body_counted_, 0);
  if (broken_) return close(true);
  if (!keep_alive_ || core_->draining) return linger();
  phase_ = Phase::idle;
  arm(core_->options.limits.idle_time);
  go_on();
  if (phase_ != Phase::closed && !read_waiting_) read_some();
}

// ---- Has the client gone?
//
// A client that breaks off while it is owed an answer is to be noticed at once. A reset is: the socket
// reports an error. The end of what it sends is not enough, because a client may close its sending side and
// still read (a half-close), and the two look the same until something is sent: a client that has closed
// answers that with a reset. So while an answer is awaited after such an end, the answer's own first bytes
// are sent ahead, one by one at growing intervals: every answer begins with "HTTP/1.1 ". Within a chunked
// answer zeros are sent ahead of the next chunk's size, where any number of them may stand. A client that
// reads gets the answer that it would get anyway.

void Connection::watch_for_errors() {
  if (error_waiting_ || read_waiting_ || phase_ != Phase::answering) return;
  error_waiting_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](const boost::system::error_code& error) {
    self->error_waiting_ = false;
    if (error || self->phase_ != Phase::answering) return;
    pollfd state{.fd = self->socket_.native_handle(), .events = 0, .revents = 0};
    const bool is_error = ::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0;
    // Urgent data, which nobody asked for, raises this too; waiting again at once would be told of it again.
    if (is_error) self->guarded([&] { self->gone(); });
  });
}

/// While so much has been sent ahead that nothing more is read, the end of it is asked for.
void Connection::watch_for_end() {
  if (end_timer_ || phase_ != Phase::answering) return;
  end_timer_ = std::make_unique<Timer>(strand_);
  look_for_end();
}

void Connection::look_for_end() {
  end_timer_->expires_after(kEndCheck);
  end_timer_->async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error) return;
    pollfd state{.fd = self->socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
    const bool goes_on = self->phase_ == Phase::answering && !self->end_seen_;
    const bool is_over = goes_on && ::poll(&state, 1, 0) > 0 && (state.revents & POLLRDHUP) != 0;
    if (goes_on && !is_over) return self->look_for_end();
    self->end_timer_.reset();
    if (is_over) self->guarded([&] { self->begin_probing(); });
  });
}

void Connection::begin_probing() {
  if (probe_timer_) return;
  probe_timer_ = std::make_unique<Timer>(strand_);
  probe_timer_->expires_after(kFirstProbe);
  probe_timer_->async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->guarded([&] { self->probe(); });
  });
}

void Connection::probe() {
  if (phase_ != Phase::answering) {
    probe_timer_.reset();
    return;
  }
  if (output_.empty()) {
    if (!begun_ && probes_ < kStatusLineStart.size()) {
      output_.emplace_back(1, kStatusLineStart[probes_++]);
      ++output_bytes_;
    } else if (begun_ && streaming_ && !http_1_0_ && !head_only_ && !is_bodiless(status_) &&
               probes_ < kMostZeros) {
      ++probes_;
      output_.emplace_back(1, '0');
      ++output_bytes_;
    }
    write_out();
    if (phase_ == Phase::closed) return;
  }
  watch_for_errors();
  const auto doubled = kFirstProbe * (2 << std::min(static_cast<int>(probes_), 10));
  const auto pause = std::min<std::chrono::milliseconds>(kLastProbePause, doubled);
  probe_timer_->expires_after(pause);
  probe_timer_->async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->guarded([&] { self->probe(); });
  });
}

void Connection::gone(bool cut_off) {
  if (phase_ == Phase::closed) return;
  const auto answer = answer_;
  if (answer) {
    answer->leave(cut_off);  // whoever answers has something to say for the log
    report(kClientLeft);
    answer_.reset();
  }
  close(answer != nullptr);
}

}  // namespace inferno::http
