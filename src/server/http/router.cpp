#include "server/http/router.hpp"

#include <fmt/format.h>
#include <utility>

#include "platform/quote.hpp"
#include "server/http/error_response.hpp"

namespace inferno::http {

void Router::add(std::string method, std::string path, Handler handler) {
  paths_[std::move(path)][std::move(method)] = std::move(handler);
}

void Router::add_rest(Handler handler) {
  rest_ = std::move(handler);
}

void Router::handle(std::shared_ptr<Exchange> exchange) const {
  const auto& request = exchange->request();
  const auto path = paths_.find(request.path);
  if (path == paths_.end()) {
    if (rest_) return rest_(std::move(exchange));
    return exchange->respond(
        error_response(404, fmt::format("there is nothing at {}", quote(request.path)), "not_found"));
  }
  const auto& methods = path->second;
  auto handler = methods.find(request.method);
  if (handler == methods.end() && request.method == "HEAD") handler = methods.find("GET");
  if (handler != methods.end()) return handler->second(std::move(exchange));

  std::string allowed;
  for (const auto& [method, unused] : methods) allowed += (allowed.empty() ? "" : ", ") + method;
  if (methods.contains("GET") && !methods.contains("HEAD")) allowed += ", HEAD";
  auto response = error_response(
      405, fmt::format("{} does not take {}, only {}", quote(request.path), quote(request.method), allowed),
      "method_not_allowed");
  response.headers.push_back({.name = "Allow", .value = allowed});
  exchange->respond(std::move(response));
}

}  // namespace inferno::http
