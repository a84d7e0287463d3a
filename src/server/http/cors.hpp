#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.hpp"

namespace inferno::http {

/// Which web pages of other origins may use the server. Access-Control-Allow-Credentials is never sent: a
/// page says its key in a header, and nothing that the browser adds on its own (cookies, passwords) counts.
class Cors {
 public:
  /// Origins as "https://chat.example", or "*" for all. Throws UsageError for what is no origin.
  explicit Cors(std::vector<std::string> origins);

  /// Headers for any answer to a request with this Origin (empty: it had none).
  std::vector<Header> headers(std::string_view origin) const;
  /// The answer to OPTIONS: 204 with what may be sent, beside `headers`.
  static Response preflight(const Request& request);

 private:
  std::vector<std::string> origins_;
  bool all_ = false;
};

}  // namespace inferno::http
