#include "server/http/fixture.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

namespace inferno::test {

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

void Kept::keep(std::shared_ptr<http::Exchange> exchange) {
  const std::lock_guard lock(mutex_);
  exchanges_.push_back(std::move(exchange));
  came_.notify_all();
}

std::shared_ptr<http::Exchange> Kept::next() {
  std::unique_lock lock(mutex_);
  if (!came_.wait_for(lock, std::chrono::seconds(10), [this] { return !exchanges_.empty(); })) return nullptr;
  auto exchange = std::move(exchanges_.front());
  exchanges_.erase(exchanges_.begin());
  return exchange;
}

http::HttpServer& HttpTest::start(http::HttpOptions options) {
  using Exchange = std::shared_ptr<http::Exchange>;
  router_.add("GET", "/health",
              [](const Exchange& exchange) { exchange->respond({.body = R"({"status":"ok"})"}); });
  router_.add("POST", "/echo", [](const Exchange& exchange) {
    exchange->respond({.content_type = "text/plain", .body = exchange->request().body});
  });
  router_.add("GET", "/echo", [](const Exchange& exchange) {
    exchange->respond({.content_type = "text/plain", .body = exchange->request().query});
  });
  router_.add("GET", "/stream", [](const Exchange& exchange) {
    exchange->begin({.content_type = "text/event-stream"});
    for (int i = 0; i < 10; ++i) exchange->write(std::to_string(i));
    exchange->end();
  });
  for (const char* const method : {"GET", "POST"}) {
    router_.add(method, "/later", [this](Exchange exchange) { kept.keep(std::move(exchange)); });
  }
  router_.add("GET", "/forget", [](const Exchange& /*exchange*/) {});
  router_.add("GET", "/throw", [](const Exchange& /*exchange*/) { throw std::runtime_error("on purpose"); });

  options.host = "127.0.0.1";
  options.port = 0;
  options.on_answered = [this](const http::Answered& answered) {
    const std::lock_guard lock(mutex_);
    statuses_.push_back(answered.status);
    if (!answered.note.empty()) notes_.push_back(answered.note);
  };
  server_ = std::make_unique<http::HttpServer>(
      std::move(options), [this](Exchange exchange) { router_.handle(std::move(exchange)); });
  return *server_;
}

std::vector<std::string> HttpTest::notes() {
  const std::lock_guard lock(mutex_);
  return notes_;
}

std::vector<unsigned> HttpTest::statuses() {
  const std::lock_guard lock(mutex_);
  return statuses_;
}

}  // namespace inferno::test
