#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/serving_engine.hpp"
#include "server/http/exchange.hpp"
#include "server/http/options.hpp"

namespace inferno::service {

/// What the server has beside the API: /health, /metrics, the web pages, and an answer to everything else
/// while the model is being loaded and while the server drains.
///
/// All calls may come from any thread.
class Service {
 public:
  struct Options {
    std::string model_name;
    std::string version;
    bool pages = true;
  };

  explicit Service(Options options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Answers a request, or gives it to the API.
  void handle(std::shared_ptr<http::Exchange> exchange) const;
  /// Counts an answer, for /metrics.
  void count(const http::Answered& answered);

  /// Where the HTTP counts come from.
  void set_counters(std::function<http::HttpCounters()> counters);
  /// From here on requests go to `api`. The engine must live until `set_stopped`.
  void set_ready(const ServingEngine& engine, http::Handler api);
  /// No new requests: 503 with Retry-After, and /health says so. What is in progress goes on.
  void set_draining();
  /// Neither engine nor API is there any more. Waits until nobody uses them.
  void set_stopped();

  /// Paths that need no key: /health, and the pages, which ask for the key themselves.
  static bool is_public(std::string_view path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inferno::service
