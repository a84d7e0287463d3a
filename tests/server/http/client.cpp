#include "server/http/client.hpp"

#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "server/http/text.hpp"

namespace inferno::test {
namespace {

constexpr int kPatience = 10'000;  // ms

}  // namespace

std::string_view Reply::header(std::string_view name) const {
  for (const auto& header : headers) {
    if (http::equal_ignoring_case(header.name, name)) return header.value;
  }
  return {};
}

Client::Client(std::uint16_t port, int receive_buffer)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0) {
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // If it fails, so does what follows.
  (void)::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
}

bool Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void Client::half_close() {
  ::shutdown(socket_.get(), SHUT_WR);
}

void Client::reset() {
  const ::linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close();
}

bool Client::read_more() {
  pollfd state{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&state, 1, kPatience) <= 0) return false;
  std::array<char, 65536> buffer{};
  const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (count <= 0) return false;
  input_.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

bool Client::is_silent(std::chrono::milliseconds time) {
  pollfd state{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return input_.empty() && ::poll(&state, 1, static_cast<int>(time.count())) == 0;
}

bool Client::receive_until(std::string_view text) {
  while (input_.find(text) == std::string::npos) {
    if (!read_more()) return false;
  }
  input_.erase(0, input_.find(text) + text.size());
  return true;
}

Reply Client::receive(bool head) {
  Reply reply;
  while (input_.find("\r\n\r\n") == std::string::npos) {
    if (!read_more()) return reply;
  }
  const auto end = input_.find("\r\n\r\n");
  std::string_view lines = std::string_view(input_).substr(0, end);
  EXPECT_TRUE(lines.starts_with("HTTP/1.1 ")) << lines;
  std::from_chars(lines.data() + 9, lines.data() + lines.size(), reply.status);
  for (auto line = lines.find("\r\n"); line != std::string_view::npos; line = lines.find("\r\n")) {
    lines.remove_prefix(line + 2);
    const auto field = lines.substr(0, lines.find("\r\n"));
    const auto colon = field.find(": ");
    EXPECT_NE(colon, std::string_view::npos) << field;
    if (colon == std::string_view::npos) return reply;
    reply.headers.push_back(
        {.name = std::string(field.substr(0, colon)), .value = std::string(field.substr(colon + 2))});
  }
  input_.erase(0, end + 4);

  if (head || reply.status < 200 || reply.status == 204 || reply.status == 304) {
    reply.complete = true;
    return reply;
  }
  if (reply.header("Transfer-Encoding") == "chunked") {
    for (;;) {
      while (input_.find("\r\n") == std::string::npos) {
        if (!read_more()) return reply;
      }
      std::size_t size = 0;
      const auto line = input_.find("\r\n");
      const auto [rest, error] = std::from_chars(input_.data(), input_.data() + line, size, 16);
      EXPECT_TRUE(error == std::errc() && rest == input_.data() + line) << input_.substr(0, line);
      while (input_.size() < line + 2 + size + 2) {
        if (!read_more()) return reply;
      }
      reply.body += input_.substr(line + 2, size);
      EXPECT_EQ(input_.substr(line + 2 + size, 2), "\r\n");
      input_.erase(0, line + 2 + size + 2);
      if (size == 0) break;
      ++reply.chunks;
    }
    reply.complete = true;
    return reply;
  }
  const auto length = reply.header("Content-Length");
  if (length.empty()) {
    reply.body = receive_all();
    reply.complete = true;
    return reply;
  }
  std::size_t size = 0;
  std::from_chars(length.data(), length.data() + length.size(), size);
  while (input_.size() < size) {
    if (!read_more()) return reply;
  }
  reply.body = input_.substr(0, size);
  input_.erase(0, size);
  if (input_.empty()) std::string().swap(input_);  // memory is measured
  reply.complete = true;
  return reply;
}

std::string Client::receive_all() {
  while (read_more()) {
  }
  return std::exchange(input_, {});
}

bool Client::is_closed() {
  char byte = 0;
  pollfd state{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return input_.empty() && ::poll(&state, 1, kPatience) > 0 && ::recv(socket_.get(), &byte, 1, 0) <= 0;
}

std::string get(std::string_view path, std::string_view more) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, more);
}

std::string post(std::string_view path, std::string_view body, std::string_view more) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n{}", path,
                     body.size(), more, body);
}

Reply ask(std::uint16_t port, std::string_view request, bool head) {
  Client client(port);
  client.send(request);
  return client.receive(head);
}

}  // namespace inferno::test
