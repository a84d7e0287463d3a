#include "connection.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <inferno/error.hpp>

namespace inferno::load {

Target parse_url(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  const auto bad = [url] {
    return UsageError(
        fmt::format("'{}' is no address of a server; expected something like http://127.0.0.1:8080", url));
  };
  if (!url.starts_with(kScheme)) throw bad();
  auto rest = url.substr(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == rest.size()) throw bad();
  auto host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {std::string(host), std::string(rest.substr(colon + 1))};
}

Poller::Poller(Target target) : target_(std::move(target)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) throw Error(fmt::format("epoll_create1: {}", std::strerror(errno)));
}

Poller::~Poller() {
  ::close(epoll_);
}

void Poller::poll(double seconds) {
  std::array<epoll_event, 64> events{};
  const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                               static_cast<int>(std::max(seconds, 0.0) * 1e3));
  for (int i = 0; i < count; ++i)
    static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr)->receive();
}

Connection::Connection(Poller& poller, std::function<void(std::string_view)> on_event,
                       std::function<void(int, std::string_view)> on_end)
    : poller_(poller), reader_(std::move(on_event), std::move(on_end)) {
  const auto& target = poller.target();
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found); failed != 0)
    throw Error(fmt::format("{}:{}: {}", target.host, target.port, gai_strerror(failed)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(found, freeaddrinfo);
  socket_ = ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0 || ::connect(socket_, address->ai_addr, address->ai_addrlen) != 0) {
    const int error = errno;
    if (socket_ >= 0) ::close(socket_);
    throw Error(fmt::format("{}:{}: {}", target.host, target.port, std::strerror(error)));
  }
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = this;
  epoll_ctl(poller.epoll_, EPOLL_CTL_ADD, socket_, &event);
}

Connection::~Connection() {
  ::close(socket_);
}

void Connection::get(std::string_view path) {
  send(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, poller_.target().host));
}

void Connection::post(std::string_view path, std::string_view json) {
  send(fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", path,
      poller_.target().host, json.size(), json));
}

void Connection::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) throw Error(fmt::format("sending a request: {}", std::strerror(errno)));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Connection::receive() {
  std::array<char, 16384> bytes;
  const auto count = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0)
    throw Error(fmt::format("the server closed a connection{}", count < 0 ? std::strerror(errno) : ""));
  reader_.take({bytes.data(), static_cast<std::size_t>(count)});
}

}  // namespace inferno::load
