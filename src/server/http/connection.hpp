#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/answer.hpp"
#include "server/http/core.hpp"
#include "server/http/request_parser.hpp"
#include "server/http/transport.hpp"

namespace inferno::http {

/// One client's connection: reads requests, one at a time, has them answered and writes the answers. All of
/// it happens in one strand. It lives as long as it waits for its socket or somebody holds an exchange.
///
/// Between requests it holds no buffers: it waits until the socket can be read and reads into a buffer of
/// the thread's.
class Connection : public AnswerOwner, public std::enable_shared_from_this<Connection> {
 public:
  /// Takes a connected socket that does not block. `turned_away`: it is told 503 at once.
  Connection(std::shared_ptr<Core> core, int socket, std::string peer, bool turned_away);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // From any thread.
  void start();
  void close_if_idle();
  void close_now();

  void post(std::function<void()> call) override;
  void flush_soon() override;

 private:
  using Clock = std::chrono::steady_clock;
  using Timer = boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Core::Strand>;
  using Socket = boost::asio::posix::basic_stream_descriptor<Core::Strand>;

  enum class Phase : std::uint8_t {
    handshake,
    idle,       ///< no byte of a request has come
    head,       ///< in a request's header
    body,       ///< in its body
    answering,  ///< the request has been read
    lingering,  ///< all is said; waits until the client has read it and closes
    closed
  };

  // Reading.
  void shake_hands();
  void read_some();
  bool wants_input() const;
  void wait_readable();
  void on_bytes(std::string_view bytes);
  void on_end();
  std::size_t advance(std::string_view bytes);
  bool admit();
  void count_body();
  void go_on();

  // Answering.
  void dispatch();
  std::shared_ptr<Answer> begin_answer(bool closes);
  void refuse(Response response);
  void finish_answer();
  void report(unsigned status);
  std::string head_of(const Response& response, bool streaming, std::size_t length);

  // Writing.
  void flush();
  void take_answer();
  void write_out();
  void wait_writable();

  // Has the client gone?
  void watch_for_errors();
  void watch_for_end();
  void look_for_end();
  void begin_probing();
  void probe();
  void gone(bool cut_off = false);

  // The end.
  void linger();
  void close(bool reset = false);

  void arm(std::chrono::milliseconds time);
  void disarm();
  void on_timer();
  void on_deadline();
  /// Runs what may throw: somebody else's code, or for lack of memory. A connection's failure is its own.
  void guarded(const std::function<void()>& call);

  const std::shared_ptr<Core> core_;
  const Core::Strand strand_;
  Socket socket_;
  Timer timer_;
  std::unique_ptr<Timer> probe_timer_;
  std::unique_ptr<Timer> end_timer_;
  std::unique_ptr<Transport> transport_;
  std::string peer_;

  Phase phase_ = Phase::idle;
  bool turned_away_;
  bool read_waiting_ = false, write_waiting_ = false, error_waiting_ = false, timer_waiting_ = false;
  bool write_wants_read_ = false;
  bool end_seen_ = false;  ///< the client sends no more; it may still read
  Clock::time_point deadline_ = Clock::time_point::max();

  std::unique_ptr<RequestParser> parser_;
  std::string input_;  ///< read and not used yet: half a header, or requests sent ahead
  std::size_t body_counted_ = 0;

  // The answer in progress.
  std::shared_ptr<Answer> answer_;
  std::deque<std::string> output_;
  std::size_t output_bytes_ = 0;   ///< in output_, without output_offset_
  std::size_t output_offset_ = 0;  ///< of the first piece, sent already
  bool keep_alive_ = false, http_1_0_ = false, head_only_ = false;
  bool begun_ = false, streaming_ = false, complete_ = false, broken_ = false;
  unsigned status_ = 0;
  std::string request_id_;
  std::size_t answer_bytes_ = 0;
  Clock::time_point began_at_ = {};
  std::size_t probes_ = 0;  ///< bytes sent ahead of the answer, or of its next chunk
};

}  // namespace inferno::http
