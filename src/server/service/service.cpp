#include "server/service/service.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <shared_mutex>
#include <utility>

#include "server/http/error_response.hpp"
#include "server/http/router.hpp"
#include "server/service/metrics_text.hpp"
#include "server/service/pages.hpp"

namespace inferno::service {
namespace {

enum class Phase : std::uint8_t { loading, ready, draining, stopped };

http::Response unavailable(std::string_view message, std::string_view code) {
  auto response = http::error_response(503, message, code);
  response.headers.push_back({.name = "Retry-After", .value = "5"});
  return response;
}

}  // namespace

struct Service::State {
  const Options options;
  const double start_time =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  http::Router router;

  mutable std::shared_mutex phase_mutex;
  std::function<http::HttpCounters()> counters;
  Phase phase = Phase::loading;
  const ServingEngine* engine = nullptr;
  http::Handler api;

  std::mutex answers_mutex;
  std::map<unsigned, std::uint64_t> answers;

  explicit State(Options given) : options(std::move(given)) {}

  void health(http::Exchange& exchange) const {
    nlohmann::ordered_json body;
    const std::shared_lock lock(phase_mutex);
    std::string broken;
    if (phase == Phase::ready) broken = engine->metrics().broken;
    if (phase == Phase::ready && broken.empty()) {
      body["status"] = "ok";
      return exchange.respond({.body = body.dump()});
    }
    if (phase == Phase::loading) {
      body["status"] = "loading";
      body["reason"] = "the model is being loaded";
    } else if (phase == Phase::ready) {
      body["status"] = "failed";
      body["reason"] = broken;
    } else {
      body["status"] = "draining";
      body["reason"] = "the server is shutting down; requests in progress are completed";
    }
    exchange.respond(
        {.status = 503, .body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)});
  }

  void metrics(http::Exchange& exchange) {
    Figures figures{.http = {},
                    .answers = {},
                    .model = options.model_name,
                    .version = options.version,
                    .start_time = start_time};
    {
      const std::lock_guard lock(answers_mutex);
      figures.answers = answers;
    }
    ServingMetrics snapshot;
    {
      const std::shared_lock lock(phase_mutex);
      if (counters) figures.http = counters();
      if (engine != nullptr) {
        snapshot = engine->metrics();
        figures.engine = &snapshot;
      }
    }
    exchange.respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
                      .body = metrics_text(figures),
                      .headers = {{.name = "Cache-Control", .value = "no-store"}}});
  }

  void pass_on(std::shared_ptr<http::Exchange> exchange) const {
    const std::shared_lock lock(phase_mutex);
    switch (phase) {
      case Phase::loading:
        return exchange->respond(unavailable("the model is being loaded; try again later", "loading"));
      case Phase::ready:
        return api(std::move(exchange));
      case Phase::draining:
      case Phase::stopped:
        return exchange->respond(unavailable("the server is shutting down", "shutting_down"));
    }
  }
};

Service::Service(Options options) : state_(std::make_unique<State>(std::move(options))) {
  auto& router = state_->router;
  router.add("GET", "/health",
             [this](const std::shared_ptr<http::Exchange>& exchange) { state_->health(*exchange); });
  router.add("GET", "/metrics",
             [this](const std::shared_ptr<http::Exchange>& exchange) { state_->metrics(*exchange); });
  if (state_->options.pages) add_pages(router);
  router.add_rest([this](std::shared_ptr<http::Exchange> exchange) { state_->pass_on(std::move(exchange)); });
}

Service::~Service() = default;

void Service::handle(std::shared_ptr<http::Exchange> exchange) const {
  state_->router.handle(std::move(exchange));
}

void Service::count(const http::Answered& answered) {
  const std::lock_guard lock(state_->answers_mutex);
  ++state_->answers[answered.status];
}

void Service::set_counters(std::function<http::HttpCounters()> counters) {
  const std::unique_lock lock(state_->phase_mutex);
  state_->counters = std::move(counters);
}

void Service::set_ready(const ServingEngine& engine, http::Handler api) {
  const std::unique_lock lock(state_->phase_mutex);
  state_->engine = &engine;
  state_->api = std::move(api);
  state_->phase = Phase::ready;
}

void Service::set_draining() {
  const std::unique_lock lock(state_->phase_mutex);
  state_->phase = Phase::draining;
}

void Service::set_stopped() {
  const std::unique_lock lock(state_->phase_mutex);
  state_->engine = nullptr;
  state_->api = nullptr;
  state_->phase = Phase::stopped;
}

bool Service::is_public(std::string_view path) {
  return path == "/health" || is_page(path);
}

}  // namespace inferno::service
