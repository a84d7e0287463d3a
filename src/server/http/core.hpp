#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "server/http/api_keys.hpp"
#include "server/http/cors.hpp"
#include "server/http/options.hpp"
#include "server/http/page_guard.hpp"
#include "server/http/transport.hpp"

namespace inferno::http {

class Connection;

/// What the connections of a server share. Only files of this folder that use Asio include this.
struct Core {
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;

  Core(HttpOptions options_given, Handler handler_given);

  boost::asio::io_context io;
  const HttpOptions options;
  const Handler handler;
  const ApiKeys keys;
  const Cors cors;
  const std::optional<PageGuard> pages;  ///< if there are no keys
  bool local = false;                    ///< listens on loopback addresses only; set before anybody is served
  std::unique_ptr<TlsContext> tls;       ///< none: in the clear

  /// Runs `call` in a strand, unless the server has stopped: then it is destroyed.
  void post(const Strand& strand, std::function<void()> call);
  void close_gate();

  // Who is connected.
  void add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  std::vector<std::shared_ptr<Connection>> all();

  std::atomic<bool> draining = false;  ///< connections end after their answer
  std::atomic<bool> stopping = false;  ///< no connection begins any more
  std::atomic<std::size_t> connections = 0, bodies_bytes = 0;
  std::atomic<std::uint64_t> accepted = 0, refused = 0, timeouts = 0, requests = 0, bytes_sent = 0;

  // Requests that are being answered.
  void request_began();
  void request_ended();
  bool wait_until_quiet(std::chrono::milliseconds timeout);
  std::size_t active() const;

 private:
  std::shared_mutex gate_;
  bool open_ = true;
  std::mutex connections_mutex_;
  std::unordered_map<const Connection*, std::weak_ptr<Connection>> connections_;
  mutable std::mutex active_mutex_;
  std::condition_variable quiet_;
  std::size_t active_ = 0;
};

}  // namespace inferno::http
