// Any bytes on a connection, cut anywhere, must get answers that are HTTP, and then the end of the
// connection; nothing may crash, leak or hang, and the same bytes in one piece must get the same answers, or
// be refused as well.
//
// Input: a byte n that says how the rest is cut: pieces of n % 64 + 1 bytes; with bit 6 a piece is only sent
// once the server has read the one before.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <regex>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>

#include "server/http/http_server.hpp"
#include "server/http/router.hpp"

namespace {

namespace http = inferno::http;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

http::HttpServer& server() {
  static http::Router router;
  static http::HttpServer made = [] {
    router.add("GET", "/",
               [](const auto& exchange) { exchange->respond({.body = exchange->request().query}); });
    router.add("POST", "/",
               [](const auto& exchange) { exchange->respond({.body = exchange->request().body}); });
    router.add("GET", "/stream", [](const auto& exchange) {
      exchange->begin({.content_type = "text/event-stream"});
      exchange->post([exchange] {
        exchange->write("data: 1\n\n");
        exchange->end();
      });
    });
    router.add("GET", "/forget", [](const auto& /*exchange*/) {});
    http::HttpOptions options;
    options.port = 0;
    options.threads = 1;
    options.limits.header_bytes = 2048;
    options.limits.body_bytes = 1024;
    options.cors_origins = {"https://a.example"};
    return http::HttpServer(options, [](auto exchange) { router.handle(std::move(exchange)); });
  }();
  return made;
}

/// The call's result once no signal cuts it short: the fuzzer's own alarm comes every few seconds.
template <typename Call>
auto uninterrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

/// What the server answers to the bytes, until it closes.
std::string answers(std::string_view bytes, std::size_t piece, bool one_by_one) {
  std::array<int, 2> pair = {-1, -1};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0, "a pair of sockets");
  const inferno::FileDescriptor client(pair[0]);
  server().adopt(inferno::FileDescriptor(pair[1]));
  while (!bytes.empty()) {
    const auto count = std::min(piece, bytes.size());
    const auto sent = uninterrupted([&] { return ::send(client.get(), bytes.data(), count, MSG_NOSIGNAL); });
    if (sent < 0) break;  // the server has heard enough
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    int unread = 1;
    for (int i = 0; one_by_one && unread > 0 && i < 100; ++i) {
      std::this_thread::yield();
      if (::ioctl(client.get(), TIOCOUTQ, &unread) != 0) break;
    }
  }
  ::shutdown(client.get(), SHUT_WR);
  std::string all;
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd state{.fd = client.get(), .events = POLLIN, .revents = 0};
    require(uninterrupted([&] { return ::poll(&state, 1, 10'000); }) > 0, "an end");
    const auto count = uninterrupted([&] { return ::recv(client.get(), buffer.data(), buffer.size(), 0); });
    if (count <= 0) break;
    all.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return all;
}

/// Without the leave to send a body, which nobody needs whose body is there already.
std::string without_interim(std::string text) {
  constexpr std::string_view kInterim = "HTTP/1.1 100 Continue\r\n\r\n";
  if (text.starts_with(kInterim)) text.erase(0, kInterim.size());
  return text;
}

/// Without what no two answers have in common: the time of day and the ids that the server makes.
std::string comparable(const std::string& text) {
  static const std::regex own("\r\n(Date|X-Request-Id): [^\r]*");
  return std::regex_replace(text, own, "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = without_interim(answers(bytes, bytes.size(), false));
  require(whole.empty() || whole.starts_with("HTTP/1.1 "), "an answer begins with its version");
  const auto cut = without_interim(answers(bytes, data[0] % 64U + 1U, (data[0] & 64U) != 0));
  // The first request is answered alike. (Later ones may be cut off by the end of the connection.)
  const auto first = [](const std::string& text) {
    return comparable(text.substr(0, text.find("\r\n\r\n")));
  };
  // What has several faults is refused for the one that is found first, which may depend on the cuts.
  const auto is_refused = [](const std::string& text) {
    return text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.1 5");
  };
  require((is_refused(whole) && is_refused(cut)) || first(whole) == first(cut), "cuts make no difference");
  return 0;
}
