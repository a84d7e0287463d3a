#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "platform/file_descriptor.hpp"
#include "server/http/exchange.hpp"
#include "server/http/options.hpp"

namespace inferno::http {

/// An HTTP/1.1 and 1.0 server: listens, reads requests within limits, has a handler answer them.
///
/// Keep-alive, requests sent ahead (answered in order), HEAD, `Expect: 100-continue` (answered at once),
/// bodies with a length or in chunks, TLS, API keys and CORS are its work; OPTIONS is answered by it alone.
/// Errors that it answers itself are JSON in OpenAI's shape.
///
/// A connection without a request holds no buffers. A client that does not read costs what its handler wrote
/// for it, plus at most 64 KiB and its receive window in the kernel.
class HttpServer {
 public:
  /// Listens and accepts from here on. Throws UsageError for options that make no sense, Error if it cannot
  /// listen (with the address and the reason) or for bad TLS files.
  HttpServer(HttpOptions options, Handler handler);
  /// Stops.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const;  ///< the one that was picked, if 0 was asked for
  std::string url() const;     ///< "http://127.0.0.1:8080", "https://[::1]:443"
  HttpCounters counters() const;

  /// Serves a stream socket that is connected already, as if it had been accepted.
  void adopt(FileDescriptor socket);

  /// Closes the ports. Connections go on.
  void stop_accepting();
  /// Connections without a request are closed, others after their answer. Waits until every answer is sent,
  /// at most `timeout`; returns whether they are. The ports stay as they are.
  bool drain(std::chrono::milliseconds timeout);
  /// Closes everything; handlers of requests that are not answered learn that their clients have gone.
  /// Returns once no thread of the server runs. May be called again; not from a handler.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace inferno::http
