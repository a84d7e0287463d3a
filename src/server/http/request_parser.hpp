#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/options.hpp"

namespace inferno::http {

/// What is wrong with a request that cannot be read further.
struct Refusal {
  unsigned status = 400;
  std::string message;
  std::string code = "malformed_request";
};

/// Reads one request from bytes as they come: header, then body.
class RequestParser {
 public:
  enum class Progress : std::uint8_t {
    more,    ///< goes on with more bytes
    header,  ///< once: the header is complete, and a body follows
    done,    ///< the request is complete
    refused  ///< see `refusal`
  };

  explicit RequestParser(const HttpLimits& limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Reads from the beginning of `bytes` and sets `used` to how many it needs no more. The rest, together
  /// with what follows it, must be given again.
  Progress put(std::string_view bytes, std::size_t& used);

  const Refusal& refusal() const;
  Request& request();
  bool header_done() const;
  bool is_http_1_0() const;
  bool keep_alive() const;                              ///< what the client wishes
  bool has_body() const;                                ///< a body was announced (once the header is done)
  std::optional<std::uint64_t> content_length() const;  ///< if that was given
  bool expects_continue() const;                        ///< Expect: 100-continue

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace inferno::http
