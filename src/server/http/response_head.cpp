#include "server/http/response_head.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "server/http/text.hpp"

namespace inferno::http {
namespace {

bool is_clean(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && byte != '\t') || byte == 0x7F;
  });
}

void add(std::string& head, std::string_view name, std::string_view value) {
  if (name.empty() || name.find_first_of(" \t:") != std::string_view::npos) return;
  if (!is_clean(name) || !is_clean(value)) return;
  fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
}

bool has(const Response& response, std::string_view name) {
  return std::any_of(response.headers.begin(), response.headers.end(),
                     [&](const Header& header) { return equal_ignoring_case(header.name, name); });
}

}  // namespace

std::string response_head(const Response& response, const Framing& framing, const std::vector<Header>& more) {
  std::string head;
  head.reserve(512);
  fmt::format_to(std::back_inserter(head), "{}{} {}\r\n", kStatusLineStart, response.status,
                 reason_phrase(response.status));
  add(head, "Date", http_date());
  add(head, "Server", "inferno");
  if (!is_bodiless(response.status)) {
    add(head, "Content-Type", response.content_type);
    add(head, "X-Content-Type-Options", "nosniff");
    if (framing.length) {
      add(head, "Content-Length", std::to_string(*framing.length));
    } else if (framing.chunked) {
      add(head, "Transfer-Encoding", "chunked");
    }
  }
  if (response.content_type.starts_with("text/event-stream")) {
    // Neither caches nor proxies may hold events back.
    if (!has(response, "Cache-Control")) add(head, "Cache-Control", "no-cache");
    if (!has(response, "X-Accel-Buffering")) add(head, "X-Accel-Buffering", "no");
  }
  if (!framing.keep_alive) {
    add(head, "Connection", "close");
  } else if (framing.http_1_0) {
    add(head, "Connection", "keep-alive");
  }
  for (const auto& header : more) add(head, header.name, header.value);
  for (const auto& header : response.headers) add(head, header.name, header.value);
  head += "\r\n";
  return head;
}

}  // namespace inferno::http
