#include "server/http/error_response.hpp"

#include <nlohmann/json.hpp>

namespace inferno::http {
namespace {

std::string_view error_type(unsigned status) {
  if (status == 401) return "authentication_error";
  if (status == 403) return "permission_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "unavailable_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

Response error_response(unsigned status, std::string_view message, std::string_view code) {
  nlohmann::ordered_json error;
  error["message"] = message;
  error["type"] = error_type(status);
  error["param"] = nullptr;
  error["code"] = code.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(code);
  nlohmann::ordered_json whole;
  whole["error"] = std::move(error);
  return {.status = status,
          .body = whole.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

}  // namespace inferno::http
