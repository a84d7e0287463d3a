#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "platform/file_descriptor.hpp"

namespace inferno::http {

enum class IoStatus : std::uint8_t {
  done,        ///< so many bytes went through
  wants_read,  ///< nothing went through: again once the socket can be read
  wants_write,
  ended,  ///< the other side sends no more
  failed  ///< the connection is broken
};

struct IoResult {
  IoStatus status = IoStatus::failed;
  std::size_t bytes = 0;
};

/// Bytes over a socket that never blocks, in the clear or not. The socket must outlive it.
class Transport {
 public:
  virtual ~Transport() = default;
  /// To be repeated until it is done, before anything else.
  virtual IoResult handshake() { return {.status = IoStatus::done}; }
  virtual IoResult read(std::span<char> bytes) = 0;
  /// Writes some of two stretches that follow each other; the same bytes must be given again after a
  /// wants_....
  virtual IoResult write(std::string_view first, std::string_view second) = 0;
  /// Tells the other side that nothing more comes.
  virtual void finish() = 0;
};

/// TCP or a local socket as it is.
std::unique_ptr<Transport> plain_transport(int socket);

/// What TLS connections have in common: certificate, key and settings.
class TlsContext {
 public:
  /// Throws Error that names the file if one cannot be read, is no PEM or does not fit the other.
  TlsContext(const std::string& certificate_file, const std::string& key_file);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  std::unique_ptr<Transport> transport(int socket) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inferno::http
