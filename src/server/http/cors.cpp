#include "server/http/cors.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include <inferno/error.hpp>

#include "platform/quote.hpp"

namespace inferno::http {
namespace {

bool is_origin(std::string_view text) {
  const auto scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const auto host = text.substr(scheme + 3);
  const auto is_plain = [](char c) { return c > ' ' && c < '\x7F' && c != ',' && c != '/'; };
  return !host.empty() && std::all_of(host.begin(), host.end(), is_plain);
}

/// What a page asks leave for is repeated only if it is a list of header names.
bool is_name_list(std::string_view text) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ";
  return text.size() <= 1024 && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

Cors::Cors(std::vector<std::string> origins) : origins_(std::move(origins)) {
  for (const auto& origin : origins_) {
    if (origin == "*") {
      all_ = true;
    } else if (origin == "none") {
      throw UsageError("\"none\" stands for no origin at all; expected it alone, found others beside it");
    } else if (!is_origin(origin)) {
      throw UsageError(
          fmt::format("{} is no origin; expected SCHEME://HOST[:PORT] without a path, for example "
                      "https://chat.example, or *",
                      quote(origin)));
    }
  }
}

std::vector<Header> Cors::headers(std::string_view origin) const {
  if (origins_.empty()) return {};
  std::vector<Header> headers;
  if (all_) {
    headers.push_back({.name = "Access-Control-Allow-Origin", .value = "*"});
  } else {
    headers.push_back({.name = "Vary", .value = "Origin"});
    const auto known = std::find(origins_.begin(), origins_.end(), origin);
    if (known == origins_.end()) return headers;
    headers.push_back({.name = "Access-Control-Allow-Origin", .value = *known});
  }
  headers.push_back({.name = "Access-Control-Expose-Headers", .value = "Retry-After, X-Request-Id"});
  return headers;
}

Response Cors::preflight(const Request& request) {
  std::string allowed = "Authorization, Content-Type, Accept, Cache-Control, X-Requested-With";
  const auto asked = request.header("Access-Control-Request-Headers");
  if (!asked.empty() && is_name_list(asked)) allowed += fmt::format(", {}", asked);
  Response response{.status = 204};
  response.headers = {{.name = "Access-Control-Allow-Methods", .value = "GET, HEAD, POST, OPTIONS"},
                      {.name = "Access-Control-Allow-Headers", .value = std::move(allowed)},
                      {.name = "Access-Control-Max-Age", .value = "600"}};
  return response;
}

}  // namespace inferno::http
