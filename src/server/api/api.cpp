#include "server/api/api.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>
#include <utility>

#include "platform/quote.hpp"
#include "server/api/handlers.hpp"
#include "server/api/workers.hpp"

namespace inferno::api {
namespace {

/// Bodies beyond this are large jobs: reading one takes milliseconds.
constexpr std::size_t kLargeBody = std::size_t{64} << 10U;
constexpr std::string_view kModels = "/v1/models";

struct Route {
  std::string_view path;
  Handled (*answer)(const Incoming&);
  const char* param;  ///< the field that a fault of the prompt is blamed on
};

constexpr std::array kRoutes = {
    Route{"/v1/chat/completions", answer_chat, "messages"},
    Route{"/v1/completions", answer_completion, "prompt"},
    Route{"/v1/embeddings", answer_embedding, "input"},
    Route{"/tokenize", answer_tokenize, "content"},
    Route{"/v1/tokenize", answer_tokenize, "content"},
    Route{"/detokenize", answer_detokenize, "tokens"},
    Route{"/v1/detokenize", answer_detokenize, "tokens"},
};

ApiError wrong_method(const http::Request& request, std::string_view allowed) {
  return {405,
          "invalid_request_error",
          fmt::format("{} {} is not allowed; expected {}", quote(request.method, 20),
                      quote(request.path, 100), allowed),
          {},
          "method_not_allowed"};
}

http::Response refused(const ApiError& error, std::string_view allowed = {}) {
  auto response = error.response();
  if (!allowed.empty()) response.headers.push_back({"Allow", std::string(allowed)});
  return response;
}

void answer(Workers& workers, const Incoming& incoming, const Route& route);

/// Jobs refer to the workers, who wait for them; one that held them might be the last to do so, in one of
/// their own threads.
void add(Workers& workers, Incoming incoming, const Route& route) {
  const auto exchange = incoming.exchange;
  const bool is_large = incoming.is_large;
  const auto job = [&workers, incoming = std::move(incoming), &route] { answer(workers, incoming, route); };
  if (workers.add(job, is_large)) return;
  ApiError error(429, "rate_limit_error", "too many requests wait to be read", {}, "queue_full");
  error.retry_after = 1;
  exchange->respond(error.response());
}

/// A job of the workers.
void answer(Workers& workers, const Incoming& incoming, const Route& route) {
  if (incoming.presence->gone) return;
  try {
    if (route.answer(incoming) == Handled::yes) return;
    auto again = incoming;
    again.is_large = true;
    add(workers, std::move(again), route);
  } catch (...) {
    incoming.exchange->respond(current_error(route.param).response());
  }
}

}  // namespace

struct Api::State {
  State(ServingEngine& engine, ApiOptions options)
      : service(std::make_shared<Service>(engine, std::move(options))),
        workers(
            std::make_shared<Workers>(std::max(service->options.threads, 2U), service->options.max_waiting)) {
    service->workers = workers;
  }

  void enqueue(const std::shared_ptr<http::Exchange>& exchange, const Route& route) {
    auto presence = std::make_shared<Presence>();
    exchange->on_gone([presence] {
      presence->gone = true;
      if (const auto answer = presence->answer.lock()) answer->leave();
    });
    const bool is_large = exchange->request().body.size() > kLargeBody;
    add(*workers, {service, exchange, std::move(presence), is_large}, route);
  }

  http::Response models(const http::Request& request) const {
    constexpr std::string_view kAllowed = "GET, HEAD";
    if (request.method != "GET" && request.method != "HEAD") {
      return refused(wrong_method(request, kAllowed), kAllowed);
    }
    if (request.path == kModels) return {.body = model_list(*service)};
    return {.body = model_entry(*service, request.path.substr(kModels.size() + 1))};
  }

  void handle(const std::shared_ptr<http::Exchange>& exchange) {
    const auto& request = exchange->request();
    const auto& path = request.path;
    const auto* route =
        std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& one) { return one.path == path; });
    if (route != kRoutes.end()) {
      if (request.method == "POST") return enqueue(exchange, *route);
      return exchange->respond(refused(wrong_method(request, "POST"), "POST"));
    }
    if (path == kModels || path.starts_with(fmt::format("{}/", kModels)))
      return exchange->respond(models(request));
    exchange->respond(ApiError(404, "invalid_request_error",
                               fmt::format("there is nothing at {}", quote(path, 100)), {}, "unknown_url")
                          .response());
  }

  std::shared_ptr<Service> service;
  std::shared_ptr<Workers> workers;
};

Api::Api(ServingEngine& engine, ApiOptions options)
    : state_(std::make_unique<State>(engine, std::move(options))) {}

Api::~Api() {
  auto service = state_->service;
  state_.reset();  // the workers first: they make answers
  service->answers.clear();
}

void Api::handle(const std::shared_ptr<http::Exchange>& exchange) {
  try {
    state_->handle(exchange);
  } catch (...) {
    exchange->respond(current_error({}).response());
  }
}

}  // namespace inferno::api
