#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <inferno/error.hpp>

#include "server/http/exchange.hpp"

namespace inferno::api {

/// What a client is told instead of an answer, in the form of OpenAI's errors.
class ApiError : public Error {
 public:
  ApiError(unsigned status, std::string type, const std::string& message, std::string param = {},
           std::string code = {})
      : Error(message),
        status_(status),
        type_(std::move(type)),
        param_(std::move(param)),
        code_(std::move(code)) {}

  unsigned status() const { return status_; }
  const std::string& type() const { return type_; }
  const std::string& param() const { return param_; }  ///< the field's path; empty: none
  const std::string& code() const { return code_; }    ///< empty: none
  /// Seconds after which it is worth trying again.
  std::optional<unsigned> retry_after;

  /// {"error": {"message", "type", "param", "code"}}; always valid JSON.
  std::string body() const;
  http::Response response() const;

 private:
  unsigned status_;
  std::string type_, param_, code_;
};

/// A field that is wrong: 400. The message begins with its path.
[[noreturn]] void refuse(const std::string& path, std::string_view what, std::string code = "invalid_value");

/// The code that goes with an error of the caller.
std::string_view code_of(const UsageError& error);

/// A message of src/chat or of the engine that begins with a path ("messages[0].content: expected …") says
/// itself which field is meant; otherwise it is `param`.
ApiError from_usage_error(const UsageError& error, const std::string& param);

/// What an exception that is in flight is for the client. What nobody expects is logged and becomes a 500
/// that says nothing of the inside. `param` is the field that a fault of the prompt is blamed on.
ApiError current_error(const std::string& param);

}  // namespace inferno::api
