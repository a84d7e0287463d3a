#include "server/http/transport.hpp"

#include <array>
#include <cerrno>
#include <sys/socket.h>
#include <sys/uio.h>

namespace inferno::http {
namespace {

IoResult of_errno(IoStatus wants) {
  const bool later = errno == EAGAIN || errno == EWOULDBLOCK;
  return {.status = later ? wants : IoStatus::failed};
}

class PlainTransport : public Transport {
 public:
  explicit PlainTransport(int socket) : socket_(socket) {}

  IoResult read(std::span<char> bytes) override {
    ssize_t count = 0;
    do {
      count = ::recv(socket_, bytes.data(), bytes.size(), 0);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return of_errno(IoStatus::wants_read);
    if (count == 0) return {.status = IoStatus::ended};
    return {.status = IoStatus::done, .bytes = static_cast<std::size_t>(count)};
  }

  IoResult write(std::string_view first, std::string_view second) override {
    const auto piece = [](std::string_view text) {
      return iovec{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
    };
    std::array<iovec, 2> pieces = {piece(first), piece(second)};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    ssize_t count = 0;
    do {
      count = ::sendmsg(socket_, &message, MSG_NOSIGNAL);
    } while (count < 0 && errno == EINTR);
    if (count < 0) return of_errno(IoStatus::wants_write);
    return {.status = IoStatus::done, .bytes = static_cast<std::size_t>(count)};
  }

  void finish() override { (void)::shutdown(socket_, SHUT_WR); }

 private:
  int socket_;
};

}  // namespace

std::unique_ptr<Transport> plain_transport(int socket) {
  return std::make_unique<PlainTransport>(socket);
}

}  // namespace inferno::http
