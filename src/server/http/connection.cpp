// A connection's life and what it reads; connection_answer.cpp has what it writes.

#include "server/http/connection.hpp"

#include <array>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <span>
#include <sys/socket.h>
#include <utility>

#include "platform/log.hpp"
#include "server/http/error_response.hpp"
#include "server/http/text.hpp"

namespace inferno::http {
namespace {

/// Connections that have nothing to read need none; those that do take turns on their thread.
std::span<char> thread_buffer() {
  thread_local std::array<char, std::size_t{64} << 10U> buffer;
  return buffer;
}

/// Reads in a row before other connections have a turn.
constexpr int kReadsInARow = 8;

}  // namespace

Connection::Connection(std::shared_ptr<Core> core, int socket, std::string peer, bool turned_away)
    : core_(std::move(core)),
      strand_(boost::asio::make_strand(core_->io)),
      socket_(strand_),
      timer_(strand_),
      peer_(std::move(peer)),
      turned_away_(turned_away) {
  transport_ = core_->tls ? core_->tls->transport(socket) : plain_transport(socket);
  socket_.assign(socket);  // last: from here on it is closed with this
}

Connection::~Connection() = default;

void Connection::guarded(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    log().error("while serving {}: {}", peer_, error.what());
    if (answer_) {
      answer_->abandon();
    } else {
      close();
    }
  }
}

void Connection::start() {
  core_->add(shared_from_this());
  boost::asio::post(strand_, [self = shared_from_this()] {
    self->guarded([&] {
      if (self->phase_ == Phase::closed) return;
      if (self->core_->stopping || (self->turned_away_ && self->core_->tls)) return self->close();
      if (self->core_->tls) {
        self->phase_ = Phase::handshake;
        self->arm(self->core_->options.limits.handshake_time);
        return self->shake_hands();
      }
      if (self->turned_away_) {
        auto response = error_response(503, "too many connections; try again later", "overloaded");
        response.headers.push_back({.name = "Retry-After", .value = "1"});
        return self->refuse(std::move(response));
      }
      self->arm(self->core_->options.limits.idle_time);
      self->read_some();
    });
  });
}

void Connection::close_if_idle() {
  boost::asio::post(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::idle && self->input_.empty()) self->close();
  });
}

void Connection::close_now() {
  boost::asio::post(strand_, [self = shared_from_this()] { self->gone(); });
}

void Connection::post(std::function<void()> call) {
  core_->post(strand_, [self = shared_from_this(), call = std::move(call)] { self->guarded(call); });
}

void Connection::flush_soon() {
  core_->post(strand_, [self = shared_from_this()] { self->guarded([&] { self->flush(); }); });
}

// ---- reading

void Connection::shake_hands() {
  const auto result = transport_->handshake();
  switch (result.status) {
    case IoStatus::done:
      phase_ = Phase::idle;
      arm(core_->options.limits.idle_time);
      return read_some();
    case IoStatus::wants_read:
      return wait_readable();
    case IoStatus::wants_write:
      return wait_writable();
    case IoStatus::ended:
    case IoStatus::failed:
      return close();
  }
}

bool Connection::wants_input() const {
  if (end_seen_ || phase_ == Phase::closed) return false;
  // While a request is answered only what one more header may have is read ahead.
  return phase_ != Phase::answering || input_.size() < core_->options.limits.header_bytes;
}

void Connection::read_some() {
  if (phase_ == Phase::handshake) return shake_hands();
  for (int i = 0; i < kReadsInARow; ++i) {
    if (!wants_input()) {
      if (!end_seen_) watch_for_end();
      return watch_for_errors();
    }
    const auto buffer = thread_buffer();
    const auto result = transport_->read(buffer);
    switch (result.status) {
      case IoStatus::done:
        on_bytes({buffer.data(), result.bytes});
        break;
      case IoStatus::wants_read:
        if (write_wants_read_) flush();
        return wait_readable();
      case IoStatus::wants_write:
        return wait_writable();
      case IoStatus::ended:
        end_seen_ = true;
        return on_end();
      case IoStatus::failed:
        return gone();
    }
  }
  wait_readable();
}

void Connection::wait_readable() {
  if (read_waiting_ || phase_ == Phase::closed) return;
  read_waiting_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const boost::system::error_code& error) {
    self->read_waiting_ = false;
    if (!error && self->phase_ != Phase::closed) self->guarded([&] { self->read_some(); });
  });
}

void Connection::on_bytes(std::string_view bytes) {
  if (phase_ == Phase::lingering) return;
  // An answer after which the connection ends: what comes is not looked at.
  if (phase_ == Phase::answering && !keep_alive_) return;
  if (phase_ == Phase::answering || !input_.empty()) {
    input_ += bytes;
    if (phase_ != Phase::answering) go_on();
    return;
  }
  const auto used = advance(bytes);
  const bool is_over = phase_ == Phase::closed || (phase_ == Phase::answering && !keep_alive_);
  if (used < bytes.size() && !is_over) input_ = bytes.substr(used);
}

/// Uses what was read ahead.
void Connection::go_on() {
  const auto used = advance(input_);
  if (used == input_.size()) {
    std::string().swap(input_);  // assigning nothing would keep the memory
  } else {
    input_.erase(0, used);
  }
  if (end_seen_ && phase_ != Phase::answering && phase_ != Phase::lingering) on_end();
}

void Connection::on_end() {
  switch (phase_) {
    case Phase::head:
    case Phase::body:
      return refuse(error_response(400, "the request ends in the middle", "incomplete_request"));
    case Phase::answering:
      watch_for_errors();
      return begin_probing();
    case Phase::idle:
    case Phase::handshake:
    case Phase::lingering:
    case Phase::closed:
      return close();
  }
}

/// Reads requests from the beginning of `bytes`, until one has to be answered first. Returns how many bytes
/// are needed no more.
std::size_t Connection::advance(std::string_view bytes) {
  const auto& limits = core_->options.limits;
  std::size_t total = 0;
  for (;;) {
    if (phase_ == Phase::idle) {
      while (total < bytes.size() && (bytes[total] == '\r' || bytes[total] == '\n')) ++total;
      if (total == bytes.size()) return total;
      parser_ = std::make_unique<RequestParser>(limits);
      phase_ = Phase::head;
      arm(limits.header_time);
    }
    if (phase_ != Phase::head && phase_ != Phase::body) return total;

    std::size_t used = 0;
    const auto progress = parser_->put(bytes.substr(total), used);
    total += used;
    count_body();
    if (phase_ != Phase::head && phase_ != Phase::body) return total;  // too much for all together
    switch (progress) {
      case RequestParser::Progress::more:
        return total;
      case RequestParser::Progress::header:
        if (!admit()) return total;
        phase_ = Phase::body;
        arm(limits.body_time);
        if (parser_->expects_continue() && total == bytes.size()) {
          output_.emplace_back("HTTP/1.1 100 Continue\r\n\r\n");
          output_bytes_ += output_.back().size();
          write_out();
        }
        break;
      case RequestParser::Progress::done:
        if (phase_ == Phase::head && !admit()) return total;
        dispatch();
        return total;
      case RequestParser::Progress::refused: {
        const auto& refusal = parser_->refusal();
        refuse(error_response(refusal.status, refusal.message, refusal.code));
        return total;
      }
    }
  }
}

/// Decides by the header alone. False: it has been answered.
bool Connection::admit() {
  const auto& request = parser_->request();
  const auto& options = core_->options;
  const auto length = parser_->content_length();
  const bool is_public = options.is_public && options.is_public(request.path);
  std::optional<Response> response;
  if (request.method == "OPTIONS") {
    response = Cors::preflight(request);
  } else if (core_->pages && !is_public) {
    response = core_->pages->refusal(request, core_->local);
  } else if (!is_public && !core_->keys.admit(request)) {
    response =
        error_response(401,
                       "a valid API key is missing; expected the header Authorization: Bearer KEY, with the "
                       "key exactly as it was issued",
                       "invalid_api_key");
    response->headers.push_back({.name = "WWW-Authenticate", .value = "Bearer"});
  }
  if (!response && length && *length > options.limits.body_bytes) {
    response = error_response(
        413,
        fmt::format("the body has {} bytes, more than the limit of {}", *length, options.limits.body_bytes),
        "body_too_large");
  }
  const auto coding = request.header("Content-Encoding");
  if (!response && !coding.empty() && !equal_ignoring_case(coding, "identity")) {
    response = error_response(415, "Content-Encoding: bodies are read as they are; expected none",
                              "unsupported_coding");
    response->headers.push_back({.name = "Accept-Encoding", .value = "identity"});
  }
  if (!response) return true;
  if (parser_->has_body()) {
    refuse(std::move(*response));  // the body is not read
  } else {
    began_at_ = Clock::now();
    begin_answer(!parser_->keep_alive())->respond(std::move(*response));
  }
  return false;
}

/// What bodies take all together is bounded too; how long one may take grows with its size.
void Connection::count_body() {
  const auto size = parser_->request().body.size();
  if (size == body_counted_) return;
  const auto before = core_->bodies_bytes.fetch_add(size - body_counted_);
  if (before + size - body_counted_ > core_->options.limits.bodies_bytes) {
    body_counted_ = size;
    auto response =
        error_response(503, "the requests in progress take all memory that there is for them", "overloaded");
    response.headers.push_back({.name = "Retry-After", .value = "1"});
    return refuse(std::move(response));
  }
  constexpr std::size_t kStep = std::size_t{64} << 10U;
  const auto steps = size / kStep - body_counted_ / kStep;
  if (deadline_ != Clock::time_point::max()) deadline_ += std::chrono::seconds(steps);
  body_counted_ = size;
}

// ---- deadlines

void Connection::arm(std::chrono::milliseconds time) {
  deadline_ = Clock::now() + time;
  if (timer_waiting_ && timer_.expiry() <= deadline_) return;  // looks again when it expires
  timer_waiting_ = true;
  timer_.expires_at(deadline_);
  timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->guarded([&] { self->on_timer(); });
  });
}

void Connection::disarm() {
  deadline_ = Clock::time_point::max();
}

void Connection::on_timer() {
  timer_waiting_ = false;
  if (phase_ == Phase::closed || deadline_ == Clock::time_point::max()) return;
  const auto now = Clock::now();
  if (now < deadline_) return arm(std::chrono::ceil<std::chrono::milliseconds>(deadline_ - now));
  on_deadline();
}

void Connection::on_deadline() {
  switch (phase_) {
    case Phase::head:
      ++core_->timeouts;
      return refuse(error_response(408, "the header took too long", "request_timeout"));
    case Phase::body:
      ++core_->timeouts;
      return refuse(error_response(408, "the body took too long", "request_timeout"));
    case Phase::answering:  // the client takes nothing
      ++core_->timeouts;
      return gone(true);
    case Phase::handshake:
      ++core_->timeouts;
      return close();
    case Phase::idle:
    case Phase::lingering:
    case Phase::closed:
      return close();
  }
}

// ---- the end

/// All is said. Closing at once would reset a client that is still sending, before it has read the answer.
void Connection::linger() {
  if (end_seen_) return close();
  transport_->finish();
  phase_ = Phase::lingering;
  std::string().swap(input_);
  arm(core_->options.limits.linger_time);
  read_some();
}

void Connection::close(bool reset) {
  if (phase_ == Phase::closed) return;
  phase_ = Phase::closed;
  timer_.cancel();
  if (probe_timer_) probe_timer_->cancel();
  if (end_timer_) end_timer_->cancel();
  if (reset) {
    // Nothing that the client does not take stays in the kernel.
    const ::linger at_once{.l_onoff = 1, .l_linger = 0};
    (void)::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  boost::system::error_code ignored;
  transport_.reset();
  socket_.close(ignored);
  core_->bodies_bytes -= std::exchange(body_counted_, 0);
  parser_.reset();
  output_.clear();
  std::string().swap(input_);
  core_->remove(this);
}

}  // namespace inferno::http
