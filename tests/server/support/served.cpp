#include "server/support/served.hpp"

#include <gtest/gtest.h>
#include <numeric>
#include <thread>
#include <utility>

namespace inferno::test {

ServingOptions small_engine() {
  ServingOptions options;
  options.backend = "pool";
  options.threads = 1;
  options.context = 1024;
  options.max_rows = 33;
  options.step_tokens = 64;
  return options;
}

Served::Served(Model model, ServingOptions options, api::ApiOptions api_options)
    : engine_(std::move(model), std::move(options)),
      api_(std::make_unique<api::Api>(engine_, std::move(api_options))) {}

Served::Served(Model model, std::unique_ptr<Executor> executor, ServingOptions options)
    : engine_(std::move(model), std::move(executor), std::move(options)),
      api_(std::make_unique<api::Api>(engine_, api::ApiOptions{})) {}

std::shared_ptr<FakeExchange> Served::send(std::string method, std::string path, std::string body) {
  http::Request request;
  request.method = std::move(method);
  request.path = std::move(path);
  request.body = std::move(body);
  auto exchange = std::make_shared<FakeExchange>(strand_, std::move(request));
  strand_.post([this, exchange] { api_->handle(exchange); });
  return exchange;
}

std::shared_ptr<FakeExchange> Served::post(std::string path, const nlohmann::ordered_json& body) {
  return send("POST", std::move(path), body.dump());
}

Reply Served::ask(std::string path, const nlohmann::ordered_json& body) {
  return post(std::move(path), body)->wait();
}

Reply Served::ask_text(std::string path, std::string body) {
  return send("POST", std::move(path), std::move(body))->wait();
}

nlohmann::json Served::answer(const std::string& path, const nlohmann::ordered_json& body) {
  const auto reply = ask(path, body);
  EXPECT_EQ(reply.status, 200U) << body << reply.body;
  EXPECT_EQ(reply.content_type, "application/json");
  return reply.json();
}

std::vector<nlohmann::json> Served::stream(const std::string& path, nlohmann::ordered_json body) {
  body["stream"] = true;
  const auto reply = ask(path, body);
  EXPECT_EQ(reply.status, 200U) << body << reply.body;
  EXPECT_EQ(reply.content_type, "text/event-stream");
  return reply.chunks();
}

nlohmann::json Served::refusal(const std::string& path, const nlohmann::ordered_json& body, unsigned status) {
  const auto reply = ask(path, body);
  EXPECT_EQ(reply.status, status) << body.dump().substr(0, 500) << reply.body;
  EXPECT_EQ(reply.content_type, "application/json");
  const auto json = reply.json();
  EXPECT_TRUE(json.contains("error")) << reply.body;
  auto error = json.value("error", nlohmann::json::object());
  EXPECT_TRUE(error.contains("message") && error.contains("type") && error.contains("param") &&
              error.contains("code"))
      << reply.body;
  return error;
}

ServingMetrics Served::settled() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (true) {
    auto metrics = engine_.metrics();
    const auto ended = std::accumulate(metrics.ended.begin(), metrics.ended.end(), std::uint64_t{0});
    if (ended == metrics.submitted && metrics.running == 0) return metrics;
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << metrics.submitted << " requests, " << ended << " ended";
      return metrics;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

nlohmann::ordered_json chat(std::string_view text, const nlohmann::ordered_json& more) {
  nlohmann::ordered_json body{{"messages", {{{"role", "user"}, {"content", text}}}}};
  if (more.is_object()) body.update(more);
  return body;
}

nlohmann::ordered_json tool(std::string_view name) {
  return {{"type", "function"}, {"function", {{"name", name}}}};
}

Joined join(const std::vector<nlohmann::json>& chunks, int index) {
  Joined joined;
  bool is_first = true;
  for (const auto& chunk : chunks) {
    for (const auto& choice : chunk.at("choices")) {
      if (choice.at("index") != index) continue;
      EXPECT_TRUE(joined.finish_reasons.empty()) << "after the end: " << chunk;
      if (!choice.at("finish_reason").is_null()) joined.finish_reasons.push_back(choice["finish_reason"]);
      if (choice.contains("text")) joined.text += choice["text"].get<std::string>();
      const auto& logprobs = choice.at("logprobs");
      if (logprobs.is_object() && logprobs.contains("content")) {
        joined.logprobs.insert(joined.logprobs.end(), logprobs["content"].begin(), logprobs["content"].end());
      }
      if (!choice.contains("delta")) continue;
      const auto& delta = choice["delta"];
      EXPECT_EQ(delta.contains("role"), is_first) << chunk;
      is_first = false;
      joined.role += delta.value("role", "");
      joined.content += delta.value("content", "");
      joined.reasoning += delta.value("reasoning_content", "");
      for (const auto& call : delta.value("tool_calls", nlohmann::json::array())) {
        const auto place = call.at("index").get<std::size_t>();
        if (place == joined.calls.size()) {
          joined.calls.push_back(
              {{"id", call.at("id")},
               {"type", call.at("type")},
               {"function", {{"name", call.at("function").at("name")}, {"arguments", ""}}}});
        } else {
          EXPECT_LT(place, joined.calls.size());
          EXPECT_FALSE(call.contains("id") || call["function"].contains("name")) << chunk;
        }
        auto& arguments = joined.calls[place]["function"]["arguments"];
        arguments = arguments.get<std::string>() + call.at("function").at("arguments").get<std::string>();
      }
    }
  }
  EXPECT_EQ(joined.finish_reasons.size(), 1U);
  return joined;
}

}  // namespace inferno::test
