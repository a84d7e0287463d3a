// /health, /metrics, pages, and what is answered before and after the model is there.

#include "server/service/service.hpp"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "server/http/fixture.hpp"
#include "server/service/access_log.hpp"
#include "server/service/embedded_files.hpp"
#include "server/service/metrics_text.hpp"
#include "support/temporary_folder.hpp"

namespace inferno::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class ServiceTest : public testing::Test {
 protected:
  ServiceTest() {
    service_.set_counters([this] { return server_.counters(); });
  }
  ~ServiceTest() override {
    server_.stop();
    service_.set_stopped();
  }
  std::uint16_t port() const { return server_.port(); }
  Reply get_page(std::string_view path, std::string_view more = {}) { return ask(port(), get(path, more)); }
  void make_ready() {
    ServingOptions options;
    options.context = 256;
    options.kv_blocks = 16;
    options.max_rows = 2;
    engine_ = std::make_unique<ServingEngine>(
        Model::load(std::filesystem::path(INFERNO_MODELS) / "tale-12m-q8_0.gguf"), options);
    service_.set_ready(*engine_, [](const auto& exchange) { exchange->respond({.body = "\"the API\""}); });
  }

  std::unique_ptr<ServingEngine> engine_;
  service::Service service_{{.model_name = "tale \"12\"", .version = "1.2.3"}};
  http::HttpServer server_{
      {.port = 0, .on_answered = [this](const auto& answered) { service_.count(answered); }},
      [this](auto exchange) { service_.handle(std::move(exchange)); }};
};

std::string status_of(const Reply& reply) {
  return nlohmann::json::parse(reply.body)["status"];
}

TEST_F(ServiceTest, HealthFollowsTheServersLife) {
  auto reply = get_page("/health");
  EXPECT_EQ(reply.status, 503U);
  EXPECT_EQ(status_of(reply), "loading");
  EXPECT_NE(nlohmann::json::parse(reply.body)["reason"], "");
  reply = get_page("/v1/models");
  EXPECT_EQ(reply.status, 503U);
  EXPECT_NE(reply.header("Retry-After"), "");
  EXPECT_EQ(nlohmann::json::parse(reply.body)["error"]["code"], "loading");

  make_ready();
  reply = get_page("/health");
  EXPECT_EQ(reply.status, 200U);
  EXPECT_EQ(reply.body, R"({"status":"ok"})");
  EXPECT_EQ(get_page("/v1/models").body, "\"the API\"");
  EXPECT_EQ(get_page("/no/such/page").body, "\"the API\"");  // which knows what there is

  service_.set_draining();
  EXPECT_EQ(status_of(get_page("/health")), "draining");
  EXPECT_EQ(nlohmann::json::parse(get_page("/v1/models").body)["error"]["code"], "shutting_down");
}

TEST_F(ServiceTest, MetricsAreThereFromTheStart) {
  auto reply = get_page("/metrics");
  EXPECT_EQ(reply.status, 200U);
  EXPECT_EQ(reply.header("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(reply.body, HasSubstr("inferno_ready 0\n"));
  EXPECT_THAT(reply.body, Not(HasSubstr("inferno_steps_total")));
  make_ready();
  auto stream = engine_->submit({.prompt_ids = {1, 2, 3}, .max_tokens = 5, .ignore_end_tokens = true});
  StreamUpdate update;
  while (!update.outcome) stream.wait(update, std::chrono::milliseconds(10'000));
  EXPECT_TRUE(eventually([&] {
    return get_page("/metrics").body.find("inferno_generated_tokens_total 5\n") != std::string::npos;
  }));
  reply = get_page("/metrics");
  EXPECT_THAT(reply.body, HasSubstr("inferno_ready 1\n"));
  EXPECT_THAT(reply.body, HasSubstr("model=\"tale \\\"12\\\"\""));
  EXPECT_THAT(reply.body, HasSubstr("inferno_requests_ended_total{reason=\"length\"} 1\n"));
  EXPECT_THAT(reply.body, HasSubstr("inferno_prompt_tokens_total 3\n"));
  EXPECT_THAT(reply.body, HasSubstr("inferno_time_to_first_token_seconds_count 1\n"));
  EXPECT_THAT(reply.body, HasSubstr("inferno_time_between_tokens_seconds_count 4\n"));
  EXPECT_THAT(reply.body, HasSubstr("inferno_e2e_request_latency_seconds_bucket{le=\"+Inf\"} 1\n"));
  EXPECT_THAT(reply.body, HasSubstr("inferno_kv_blocks{state=\"in_use\"} 0\n"));
  EXPECT_THAT(reply.body, HasSubstr("inferno_http_requests_total{code=\"200\"}"));
}

TEST(MetricsText, PromtoolFindsNothing) {
  if (std::system("command -v promtool >/dev/null 2>&1") !=
      0) {  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
    GTEST_SKIP() << "promtool is missing (Debian: prometheus)";
  }
  ServingMetrics engine;
  engine.blocks_total = 3;
  for (const double seconds : {0.0004, 0.02, 0.7, 1000.0}) engine.total_time.add(seconds);
  const TemporaryFolder folder;
  const auto file = folder.write(
      "metrics",
      service::metrics_text({.engine = &engine, .http = {}, .answers = {{200, 5}, {499, 1}}, .model = "m"}));
  const auto command =
      "promtool check metrics <" + file.string() + " >" + (folder / "out").string() + " 2>&1";
  const int status = std::system(command.c_str());  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
  EXPECT_EQ(status, 0) << read_file(folder / "out");
  EXPECT_EQ(read_file(folder / "out"), "");
}

TEST(MetricsText, BucketsAreCumulative) {
  ServingMetrics engine;
  for (const double seconds : {0.0004, 0.02, 0.7, 1000.0}) engine.total_time.add(seconds);
  const auto text = service::metrics_text({.engine = &engine});
  EXPECT_THAT(text, HasSubstr("inferno_e2e_request_latency_seconds_bucket{le=\"0.001\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("inferno_e2e_request_latency_seconds_bucket{le=\"1\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("inferno_e2e_request_latency_seconds_bucket{le=\"250\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("inferno_e2e_request_latency_seconds_bucket{le=\"+Inf\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("inferno_e2e_request_latency_seconds_count 4\n"));
}

/// One answer for each, however many sequences it was to have, and however often the engine was asked.
TEST(MetricsText, RefusedRequestsAreThoseThatWereAnswered429) {
  ServingMetrics engine;
  engine.refused = 50;
  EXPECT_THAT(service::metrics_text({.engine = &engine, .answers = {{200, 9}, {429, 3}}}),
              HasSubstr("\ninferno_requests_refused_total 3\n"));
  EXPECT_THAT(service::metrics_text({.engine = &engine, .answers = {{200, 9}}}),
              HasSubstr("\ninferno_requests_refused_total 0\n"));
}

TEST_F(ServiceTest, PagesAreServedAsTheyLie) {
  for (const auto& file : service::embedded_files()) {
    std::string path = "/assets/" + std::string(file.name);
    if (file.name == "index.html") path = "/";
    if (file.name == "stats.html") path = "/stats";
    const auto reply = get_page(path);
    EXPECT_EQ(reply.status, 200U) << path;
    EXPECT_EQ(reply.body, file.bytes);
    EXPECT_EQ(reply.body, read_file(std::filesystem::path(INFERNO_PAGES) / file.name));
    EXPECT_THAT(std::string(reply.header("Content-Security-Policy")), HasSubstr("default-src 'none'"));
    EXPECT_THAT(std::string(reply.header("Content-Security-Policy")), Not(HasSubstr("unsafe")));
    EXPECT_EQ(reply.header("X-Content-Type-Options"), "nosniff");
    const auto again = get_page(path, "If-None-Match: " + std::string(reply.header("ETag")) + "\r\n");
    EXPECT_EQ(again.status, 304U);
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(get_page(path, "If-None-Match: \"other\"\r\n").status, 200U);
    EXPECT_TRUE(service::Service::is_public(path));
  }
  EXPECT_EQ(get_page("/").header("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(ask(port(), post("/", "x")).status, 405U);
  for (const char* const path : {"/metrics", "/v1/models", "/assets", "/healthz", "/stats/", ""}) {
    EXPECT_FALSE(service::Service::is_public(path)) << path;
  }
}

TEST(AccessLine, SaysWhatHappenedAndNothingElse) {
  http::Request request;
  request.method = "POST";
  request.path = "/v1/chat/completions";
  request.query = "key=secret";
  request.peer = "127.0.0.1:5";
  request.headers = {{"Authorization", "Bearer secret"}};
  request.body = "secret";
  http::Answered answered{.request = &request,
                          .status = 200,
                          .milliseconds = 12.34,
                          .body_bytes = 56,
                          .request_id = {},
                          .note = "7+8"};
  EXPECT_EQ(service::access_line(answered), "127.0.0.1:5 POST /v1/chat/completions 200 12.3 ms 56 B 7+8");
  answered.request_id = "req-1";
  EXPECT_EQ(service::access_line(answered),
            "127.0.0.1:5 POST /v1/chat/completions 200 12.3 ms 56 B req-1 7+8");
  request.path = "/a\nb" + std::string(1000, 'x');
  request.method = "M\x1b[2J";
  const auto line = service::access_line(answered);
  EXPECT_LT(line.size(), 300U);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace inferno::test
