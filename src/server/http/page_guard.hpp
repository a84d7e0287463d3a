#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.hpp"

namespace inferno::http {

/// Keeps web pages that somebody happens to visit away from a server that asks for no key. Such a page can
/// have its visitor's browser send requests to any address, and if it lets a name of its own point there,
/// read the answers as well.
class PageGuard {
 public:
  /// `host`: what the server listens on. `origins`: pages that may use it, as in HttpOptions::cors_origins;
  /// the names in them may be those of the server, too.
  PageGuard(std::string host, const std::vector<std::string>& origins);

  /// 403 for a request that a page of another origin sent and that is more than a question (GET), and
  /// (`local`: the server listens on loopback addresses only) for one that knows the server by a name that is
  /// not its own. nullopt: it may go on.
  std::optional<Response> refusal(const Request& request, bool local) const;

 private:
  bool allows_origin(const Request& request, std::string_view origin) const;
  bool allows_name(std::string_view name) const;

  std::vector<std::string> origins_;
  std::vector<std::string> names_;
  bool all_;  // "*" is one of the origins
};

}  // namespace inferno::http
