#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/file_descriptor.hpp"

namespace inferno::http {

/// Sockets that listen on all addresses of a host, with one port. Throws Error with the address and the
/// reason.
struct Listening {
  std::vector<FileDescriptor> sockets;
  std::uint16_t port = 0;
  bool local = true;  ///< all of them are loopback addresses
};
Listening listen_on(const std::string& host, std::uint16_t port);

/// The next client of a listening socket, set up: does not block, sends at once. Without a number and
/// errno set if there is none.
FileDescriptor accept_client(int listener, std::string& peer);

}  // namespace inferno::http
