#include "server/api/error.hpp"

#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <utility>

#include "chat/conversation.hpp"
#include "chat/jinja/budget.hpp"
#include "engine/serving_engine.hpp"
#include "platform/log.hpp"
#include "server/api/json_text.hpp"

namespace inferno::api {
namespace {

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr unsigned kRetryAfter = 1;

bool is_path_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '[' ||
         c == ']' || c == '.';
}

/// The path that a message begins with, up to its colon; empty if it begins otherwise.
std::string_view leading_path(std::string_view message) {
  std::size_t size = 0;
  while (size < message.size() && is_path_character(message[size])) ++size;
  return size < message.size() && message[size] == ':' ? message.substr(0, size) : std::string_view();
}

ApiError retry_later(unsigned status, std::string type, const std::string& message, std::string code) {
  ApiError error(status, std::move(type), message, {}, std::move(code));
  error.retry_after = kRetryAfter;
  return error;
}

}  // namespace

std::string ApiError::body() const {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, what());
  out += R"(,"type":)";
  append_json_string(out, type_);
  out += R"(,"param":)";
  append_json_string_or_null(out, param_);
  out += R"(,"code":)";
  append_json_string_or_null(out, code_);
  out += "}}";
  return out;
}

http::Response ApiError::response() const {
  http::Response response{.status = status_, .body = body()};
  if (retry_after) response.headers.push_back({"Retry-After", std::to_string(*retry_after)});
  return response;
}

void refuse(const std::string& path, std::string_view what, std::string code) {
  throw ApiError(400, std::string(kInvalid), fmt::format("{}: {}", path, what), path, std::move(code));
}

std::string_view code_of(const UsageError& error) {
  using Fault = ConversationError::Fault;
  const auto* fault = dynamic_cast<const ConversationError*>(&error);
  switch (fault == nullptr ? Fault::value : fault->fault()) {
    case Fault::type:
      return "invalid_type";
    case Fault::missing:
      return "missing";
    case Fault::unsupported:
      return "unsupported";
    case Fault::value:
      break;
  }
  return "invalid_value";
}

ApiError from_usage_error(const UsageError& error, const std::string& param) {
  const auto path = leading_path(error.what());
  return {400, std::string(kInvalid), error.what(), path.empty() ? param : std::string(path),
          std::string(code_of(error))};
}

ApiError current_error(const std::string& param) {
  const std::string invalid(kInvalid);
  try {
    throw;
  } catch (const ApiError& error) {
    return error;
  } catch (const ContextExceeded& error) {
    return {400, invalid, error.what(), param, "context_length_exceeded"};
  } catch (const QueueFull& error) {
    return retry_later(429, "rate_limit_error", error.what(), "queue_full");
  } catch (const EngineStopped& error) {
    return retry_later(503, "server_error", error.what(), "unavailable");
  } catch (const ConstraintRefused& error) {
    return {400, invalid, error.what(), {}, "invalid_json_schema"};
  } catch (const jinja::TemplateRefusal& error) {
    return {400, invalid, error.what(), param, "chat_template_failed"};
  } catch (const UsageError& error) {
    return from_usage_error(error, param);
  } catch (const jinja::TemplateError& error) {
    // What a template cannot render is what it was given.
    return {400, invalid, error.what(), param, "chat_template_failed"};
  } catch (const Error& error) {
    return {400, invalid, error.what(), param, "unsupported"};
  } catch (const std::bad_alloc&) {
    log().error("a request was refused: out of memory");
    return retry_later(503, "server_error", "the server is out of memory", "out_of_memory");
  } catch (const std::exception& error) {
    log().error("a request failed: {}", error.what());
  } catch (...) {
    log().error("a request failed with an exception of an unknown kind");
  }
  return {500, "server_error", "internal error", {}, "internal_error"};
}

}  // namespace inferno::api
