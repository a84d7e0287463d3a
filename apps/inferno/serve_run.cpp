#include "serve_run.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <sys/resource.h>
#include <utility>

#include <inferno/error.hpp>

#include "common/options.hpp"
#include "common/program.hpp"
#include "platform/log.hpp"
#include "server/api/api.hpp"
#include "server/http/api_keys.hpp"
#include "server/http/http_server.hpp"
#include "server/service/access_log.hpp"
#include "server/service/service.hpp"
#include "stop_signals.hpp"
#include "version.hpp"

namespace inferno::cli {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Files that are open beside connections: libraries, the model, what the drivers need.
constexpr std::size_t kOtherFiles = 256;
constexpr std::size_t kLeastFiles = 64;

/// As many open files as the system grants; fewer connections if that is too little for them.
void fit_connections(http::HttpLimits& limits) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
  (void)::getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < kLeastFiles) {
    throw Error(
        fmt::format("the system grants this process {} open files; expected at least {} (see ulimit -n)",
                    files.rlim_cur, kLeastFiles));
  }
  const std::size_t room = files.rlim_cur - std::min<std::size_t>(kOtherFiles, files.rlim_cur / 2);
  if (files.rlim_cur == RLIM_INFINITY || room >= limits.connections) return;
  log().warn("at most {} connections: the system grants this process {} open files", room, files.rlim_cur);
  limits.connections = room;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

http::HttpOptions http_options(const ServeSettings& settings, service::Service& service) {
  auto options = settings.http;
  if (!settings.api_key_file.empty()) options.api_keys = http::read_api_keys(settings.api_key_file);
  // A key is what protects the server from pages of other origins; without one none may use it.
  if (options.cors_origins.empty() && !options.api_keys.empty()) options.cors_origins = {"*"};
  if (options.cors_origins == std::vector<std::string>{"none"}) options.cors_origins.clear();
  options.is_public = &service::Service::is_public;
  options.on_answered = [&service](const http::Answered& answered) {
    service.count(answered);
    if (log().should_log(spdlog::level::info)) log().info("{}", service::access_line(answered));
  };
  fit_connections(options.limits);
  if (options.api_keys.empty() && !is_loopback(options.host)) {
    log().warn("everybody who reaches {} can use the model: there is no --api-key-file", options.host);
  }
  return options;
}

/// Lets what is in progress end, then ends it, all within the time.
void drain(ServingEngine& engine, http::HttpServer& server, service::Service& service, milliseconds time) {
  const auto deadline = Clock::now() + time;
  service.set_draining();
  const auto counts = server.counters();
  log().info("draining: {} {} in progress, at most {:.1f} s; again to end at once", counts.requests_active,
             counts.requests_active == 1 ? "request" : "requests",
             static_cast<double>(time.count()) / 1000.0);
  // Some of the time is kept for telling clients that their requests were ended.
  const auto reserve = std::min<milliseconds>(milliseconds(1000), time / 4);
  if (!engine.drain(time - reserve)) log().warn("ending requests that did not end in time");
  engine.stop();
  server.stop_accepting();
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
  server.drain(std::max(left, milliseconds(100)));
}

/// Ends the server's threads before what they use.
class Shutdown {
 public:
  Shutdown(http::HttpServer& server, service::Service& service) : server_(server), service_(service) {}
  Shutdown(const Shutdown&) = delete;
  Shutdown& operator=(const Shutdown&) = delete;
  ~Shutdown() {
    server_.stop();
    service_.set_stopped();
  }

 private:
  http::HttpServer& server_;
  service::Service& service_;
};

}  // namespace

int serve(ServeSettings settings) {
  StopSignals signals;
  // Whoever reads the log may leave; the server stays.
  std::signal(SIGPIPE, SIG_IGN);
  // A file that cannot be served is refused before the port is opened.
  const auto model = settings.model.load();
  const auto name = settings.names.empty() ? model.name() : settings.names.front();
  const auto templates = std::make_shared<const ChatTemplates>(settings.chat_template.load(model));

  service::Service service({.model_name = name, .version = INFERNO_VERSION, .pages = !settings.no_page});
  http::HttpServer server(
      http_options(settings, service),
      [&service](std::shared_ptr<http::Exchange> exchange) { service.handle(std::move(exchange)); });
  service.set_counters([&server] { return server.counters(); });

  settings.engine.prefix_cache = !settings.no_prefix_cache;
  ServingEngine engine(model, std::move(settings.engine));
  api::ApiOptions api_options;
  api_options.model_name = name;
  if (!settings.names.empty()) api_options.aliases.assign(settings.names.begin() + 1, settings.names.end());
  api_options.templates = templates;
  api_options.pooling = settings.pooling;
  api::Api api(engine, std::move(api_options));
  const Shutdown shutdown(server, service);

  const auto metrics = engine.metrics();
  report_threads(metrics.backend, engine.options().threads);
  log().info("serving {} on {} ({}): context {}, {} cache blocks of {}, {} requests at once and {} waiting",
             name, metrics.backend, metrics.device, metrics.context_limit, metrics.blocks_total,
             metrics.block_size, metrics.max_rows, metrics.max_queue);
  service.set_ready(engine,
                    [&api](const std::shared_ptr<http::Exchange>& exchange) { api.handle(exchange); });
  signals.begin();
  (void)std::fputs(fmt::format("listening on {}\n", server.url()).c_str(), stderr);
  (void)std::fflush(stderr);

  std::string broken;
  while (broken.empty() && !signals.wait(milliseconds(500))) broken = engine.metrics().broken;
  if (!broken.empty()) log().error("the engine has broken down: {}", broken);
  drain(engine, server, service, broken.empty() ? settings.drain_time : std::chrono::seconds(1));
  return broken.empty() ? 0 : kFailed;
}

}  // namespace inferno::cli
