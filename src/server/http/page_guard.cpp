#include "server/http/page_guard.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <fmt/format.h>
#include <utility>

#include "platform/quote.hpp"
#include "server/http/error_response.hpp"
#include "server/http/text.hpp"

namespace inferno::http {
namespace {

/// Longest part of a header that a message repeats.
constexpr std::size_t kMostQuoted = 100;

/// "a.example" of "a.example:80", "::1" of "[::1]:80".
std::string_view name_of(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  auto name = authority.substr(0, authority.rfind(':'));
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

/// What follows the scheme.
std::string_view authority_of(std::string_view origin) {
  const auto scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

bool is_address(const std::string& name) {
  std::array<unsigned char, 16> address{};
  return ::inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), address.data()) == 1;
}

bool is_in(const std::vector<std::string>& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& known) { return equal_ignoring_case(known, name); });
}

}  // namespace

PageGuard::PageGuard(std::string host, const std::vector<std::string>& origins)
    : origins_(origins), all_(is_in(origins_, "*")) {
  names_.push_back(std::move(host));
  for (const auto& origin : origins_) names_.emplace_back(name_of(authority_of(origin)));
}

bool PageGuard::allows_origin(const Request& request, std::string_view origin) const {
  if (all_ || std::find(origins_.begin(), origins_.end(), origin) != origins_.end()) return true;
  // Of the server's own pages. Behind a proxy Host may be another, but the browser has compared them itself.
  const auto authority = authority_of(origin);
  return (!authority.empty() && equal_ignoring_case(authority, request.header("Host"))) ||
         request.header("Sec-Fetch-Site") == "same-origin";
}

bool PageGuard::allows_name(std::string_view name) const {
  // A page cannot make an address its own, nor a name without a dot, which no domain's owner has.
  if (all_ || name.find('.') == std::string_view::npos || is_address(std::string(name))) return true;
  constexpr std::string_view kLocal = ".localhost";
  const bool is_local =
      name.size() > kLocal.size() && equal_ignoring_case(name.substr(name.size() - kLocal.size()), kLocal);
  return is_local || is_in(names_, name);
}

std::optional<Response> PageGuard::refusal(const Request& request, bool local) const {
  const auto name = name_of(request.header("Host"));
  if (local && !allows_name(name)) {
    return error_response(
        403,
        fmt::format("this server is not known as {}; without API keys it answers under addresses, "
                    "localhost and the name of --host only. --cors-origin https://NAME adds a name",
                    quote(name, kMostQuoted)),
        "foreign_host");
  }
  // What is asked for with GET changes nothing, and without CORS headers a page cannot read it.
  const bool does_work = request.method != "GET" && request.method != "HEAD";
  const auto origin = request.header("Origin");
  if (does_work && !origin.empty() && !allows_origin(request, origin)) {
    return error_response(403,
                          fmt::format("pages of {} may not use this server, which has no API keys; "
                                      "--cors-origin ORIGIN lets them",
                                      quote(origin, kMostQuoted)),
                          "foreign_origin");
  }
  return std::nullopt;
}

}  // namespace inferno::http
