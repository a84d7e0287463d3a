#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.hpp"

namespace inferno::http {

/// What one client, and all together, may take. Who exceeds one is told which.
struct HttpLimits {
  std::size_t header_bytes = std::size_t{16} << 10U;   ///< request line and header fields; 431
  std::size_t header_fields = 100;                     ///< 431
  std::size_t body_bytes = std::size_t{16} << 20U;     ///< 413; before it is read, if Content-Length says so
  std::size_t bodies_bytes = std::size_t{256} << 20U;  ///< of all requests that are being answered; 503
  std::size_t connections = 4096;                      ///< open at once; 503

  std::chrono::milliseconds handshake_time{10'000};  ///< TLS; closed
  std::chrono::milliseconds header_time{10'000};     ///< from a request's first byte to its last field; 408
  std::chrono::milliseconds body_time{30'000};   ///< for a body, and one second more per 64 KiB of it; 408
  std::chrono::milliseconds idle_time{75'000};   ///< without a request; closed
  std::chrono::milliseconds write_time{30'000};  ///< the client takes nothing of what is there; closed
  std::chrono::milliseconds linger_time{2'000};  ///< for a client that is still sending at the end; closed
};

/// A request and what became of it, for the log and for counts.
struct Answered {
  const Request* request = nullptr;  ///< method and path may be empty if it could not be read
  unsigned status = 0;               ///< what was sent; 499 if the client left before the answer was complete
  double milliseconds = 0;           ///< from its last byte to that of the answer, as handed to the kernel
  std::size_t body_bytes = 0;        ///< of the answer
  std::string request_id;            ///< what the answer says in X-Request-Id
  std::string note;                  ///< what the handler had to say, see Exchange::add_note
};

struct HttpOptions {
  std::string host = "127.0.0.1";  ///< address or name; of a name all addresses are listened on
  std::uint16_t port = 8080;       ///< 0: a free one
  unsigned threads = 2;            ///< that serve connections
  HttpLimits limits = {};

  /// PEM files, both or none: certificate chain (the server's own first) and its private key. With them the
  /// server speaks TLS 1.2 or later only.
  std::string tls_certificate = {};
  std::string tls_key = {};

  /// With any, requests must have `Authorization: Bearer KEY` with one of them, else 401 before the body is
  /// read.
  std::vector<std::string> api_keys = {};
  /// Paths that need no key. None: no path. (OPTIONS never needs one.)
  std::function<bool(std::string_view path)> is_public = {};

  /// Origins of web pages that may use the server, as "https://chat.example"; {"*"}: all. Credentials are
  /// never allowed, so a page needs the key itself. Without keys what other pages send (POST) is answered
  /// 403, but for public paths, and so are those under unknown names if `host` is a loopback address (see
  /// PageGuard).
  std::vector<std::string> cors_origins = {};

  /// Called when a request is over, on a thread that serves connections. May be empty.
  std::function<void(const Answered&)> on_answered = {};
};

/// Counts of the server. All but `connections` and `requests_active` only grow.
struct HttpCounters {
  std::size_t connections = 0;      ///< open now
  std::size_t requests_active = 0;  ///< being answered now
  std::uint64_t accepted = 0;       ///< connections
  std::uint64_t refused = 0;        ///< connections beyond the limit
  std::uint64_t timeouts = 0;       ///< connections closed for being slow
  std::uint64_t requests = 0;       ///< read as a whole, or refused while being read
  std::uint64_t bytes_sent = 0;     ///< with headers
};

}  // namespace inferno::http
