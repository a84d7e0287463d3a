#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platform/file_descriptor.hpp"
#include "server/http/exchange.hpp"

namespace inferno::test {

/// A parsed answer.
struct Reply {
  unsigned status = 0;
  std::vector<http::Header> headers;
  std::string body;        ///< without chunks' sizes
  std::size_t chunks = 0;  ///< of a chunked body
  bool complete = false;   ///< the body's end was seen
  std::string_view header(std::string_view name) const;
};

/// A socket of a client that does only what it is told.
class Client {
 public:
  /// Connects to 127.0.0.1 (or ::1). `receive_buffer`: 0 is the system's own choice.
  explicit Client(std::uint16_t port, int receive_buffer = 0);
  /// With a socket that is connected already.
  explicit Client(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Sends all of it; false if the server does not take it.
  bool send(std::string_view bytes);
  void half_close();
  void close() { socket_ = FileDescriptor(); }
  void reset();  ///< closes so that the server is told at once

  /// Reads one answer; interim answers (1xx) come as answers of their own. An incomplete one (see `complete`)
  /// if the server closes or nothing comes for ten seconds. `head`: it answers a HEAD request.
  Reply receive(bool head = false);
  /// Everything that still comes until the server closes.
  std::string receive_all();
  /// Whether the server closes without another byte.
  bool is_closed();
  /// Reads until `text` has come; false if it does not.
  bool receive_until(std::string_view text);
  /// Whether nothing comes for a while.
  bool is_silent(std::chrono::milliseconds time);

  int socket() const { return socket_.get(); }

 private:
  bool read_more();
  FileDescriptor socket_;
  std::string input_;
};

/// "GET /path HTTP/1.1" with Host and more header lines, each ending in CR LF.
std::string get(std::string_view path, std::string_view more = {});
std::string post(std::string_view path, std::string_view body, std::string_view more = {});

/// One request on a connection of its own.
Reply ask(std::uint16_t port, std::string_view request, bool head = false);

}  // namespace inferno::test
