#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "answer_reader.hpp"

namespace inferno::load {

/// Where the server is.
struct Target {
  std::string host;  ///< an address
  std::string port;
};

/// "http://127.0.0.1:8080". Throws UsageError for what it does not understand.
Target parse_url(std::string_view url);

/// Connections to one server, served by the thread that calls `poll`.
class Poller;

/// One kept-alive connection, on which a request follows the other.
class Connection {
 public:
  /// Connects; throws Error if there is nobody.
  Connection(Poller& poller, std::function<void(std::string_view data)> on_event,
             std::function<void(int status, std::string_view body)> on_end);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Sends a request; its answer comes through the callbacks. One at a time.
  void get(std::string_view path);
  void post(std::string_view path, std::string_view json);

 private:
  friend class Poller;
  void send(std::string_view bytes) const;
  void receive();

  Poller& poller_;
  AnswerReader reader_;
  int socket_ = -1;
};

class Poller {
 public:
  explicit Poller(Target target);
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  /// Waits at most so long for answers and runs what they call. Callbacks must not destroy connections.
  void poll(double seconds);

  const Target& target() const { return target_; }

 private:
  friend class Connection;
  Target target_;
  int epoll_ = -1;
};

}  // namespace inferno::load
