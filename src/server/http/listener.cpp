#include "server/http/listener.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

#include <inferno/error.hpp>

#include "platform/quote.hpp"

namespace inferno::http {
namespace {

void set_option(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof(value));
}

/// "127.0.0.1:80", "[::1]:80".
std::string address_text(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  if (::getnameinfo(address, size, host.data(), host.size(), service.data(), service.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  const bool is_v6 = address->sa_family == AF_INET6;
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", host.data(), is_v6 ? "]" : "", service.data());
}

std::uint16_t bound_port(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  const auto port = address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                                  : reinterpret_cast<sockaddr_in*>(&address)->sin_port;
  return ntohs(port);
}

bool is_loopback(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr;
    return ntohl(v4.s_addr) >> 24U == IN_LOOPBACKNET;
  }
  if (address.ai_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr) != 0;
}

FileDescriptor listen_at(const addrinfo& address, bool only_v6) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return socket;
  set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, only_v6 ? 1 : 0);
  if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    const int reason = errno;
    socket = FileDescriptor();
    errno = reason;
  }
  return socket;
}

}  // namespace

Listening listen_on(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(failed == 0 ? found : nullptr,
                                                                       &::freeaddrinfo);
  if (host.empty() || failed != 0) {
    throw Error(fmt::format("cannot listen on host {}: {}", quote(host),
                            host.empty() ? "it is empty" : ::gai_strerror(failed)));
  }
  Listening listening;
  std::string reason;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    // A port that was picked for the first address is used for the others as well.
    if (port == 0 && listening.port != 0) {
      const auto picked = htons(listening.port);
      if (address->ai_family == AF_INET6)
        reinterpret_cast<sockaddr_in6*>(address->ai_addr)->sin6_port = picked;
      if (address->ai_family == AF_INET) reinterpret_cast<sockaddr_in*>(address->ai_addr)->sin_port = picked;
    }
    auto socket = listen_at(*address, addresses->ai_next != nullptr);
    if (!socket) {
      // A name may have an address of a family that this machine lacks; a port in use is a mistake.
      const bool lacking = errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL;
      reason = fmt::format("{}: {}", address_text(address->ai_addr, address->ai_addrlen), ::strerror(errno));
      if (lacking) continue;
      throw Error(fmt::format("cannot listen on {}{}", reason,
                              errno == EADDRINUSE ? "; choose another port (0: any free one)" : ""));
    }
    listening.local = listening.local && is_loopback(*address);
    if (listening.port == 0) listening.port = bound_port(socket.get());
    listening.sockets.push_back(std::move(socket));
  }
  if (listening.sockets.empty()) throw Error(fmt::format("cannot listen on {}", reason));
  return listening;
}

FileDescriptor accept_client(int listener, std::string& peer) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  FileDescriptor socket(
      ::accept4(listener, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) return socket;
  peer = address_text(reinterpret_cast<sockaddr*>(&address), size);
  // Tokens are not held back for more of them; what a client does not take stays here, not in the kernel.
  set_option(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, 64 << 10);
  // A client whose machine vanished without a word is found out within about a minute.
  set_option(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, 3);
  return socket;
}

}  // namespace inferno::http
