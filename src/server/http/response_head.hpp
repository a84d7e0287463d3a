#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "server/http/exchange.hpp"

namespace inferno::http {

/// How an answer is framed.
struct Framing {
  std::optional<std::size_t> length = std::nullopt;  ///< of the body; none: not known
  bool chunked = false;  ///< if it is not known; else the connection's end is the body's
  bool http_1_0 = false;
  bool keep_alive = true;
};

/// Status line and header fields, `more` among them, with the empty line after them. Begins with
/// kStatusLineStart whatever the response is. Header fields that could not be sent as such (line breaks in
/// them) are left out.
std::string response_head(const Response& response, const Framing& framing, const std::vector<Header>& more);

/// What every answer begins with.
inline constexpr std::string_view kStatusLineStart = "HTTP/1.1 ";

/// Whether an answer of this status has no body, not even an empty one.
constexpr bool is_bodiless(unsigned status) {
  return status == 204 || status == 304 || status < 200;
}

}  // namespace inferno::http
