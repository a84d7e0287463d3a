#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <inferno/model.hpp>

#include "engine/serving_engine.hpp"
#include "server/api/api.hpp"
#include "server/support/fake_exchange.hpp"

namespace inferno::test {

/// Small and quick, on one thread.
ServingOptions small_engine();

/// A model behind the API, and a client of it.
class Served {
 public:
  explicit Served(Model model, ServingOptions options = small_engine(), api::ApiOptions api_options = {});
  Served(Model model, std::unique_ptr<Executor> executor, ServingOptions options);

  std::shared_ptr<FakeExchange> send(std::string method, std::string path, std::string body = {});
  std::shared_ptr<FakeExchange> post(std::string path, const nlohmann::ordered_json& body);
  /// Sends and waits.
  Reply ask(std::string path, const nlohmann::ordered_json& body);
  Reply ask_text(std::string path, std::string body);
  /// A body that must be answered with 200, as JSON.
  nlohmann::json answer(const std::string& path, const nlohmann::ordered_json& body);
  /// The same with "stream": true, as chunks.
  std::vector<nlohmann::json> stream(const std::string& path, nlohmann::ordered_json body);
  /// The error of a body that must be refused with `status`.
  nlohmann::json refusal(const std::string& path, const nlohmann::ordered_json& body, unsigned status = 400);

  ServingEngine& engine() { return engine_; }
  api::Api& api() { return *api_; }
  Strand& strand() { return strand_; }
  /// The counts once nothing is under way any more; fails the test if that does not come.
  ServingMetrics settled();

 private:
  Strand strand_;
  ServingEngine engine_;
  std::unique_ptr<api::Api> api_;
};

inline const std::string kChat = "/v1/chat/completions";
inline const std::string kCompletions = "/v1/completions";
inline const std::string kEmbeddings = "/v1/embeddings";

/// {"messages": [{"role": "user", "content": TEXT}]} and more members.
nlohmann::ordered_json chat(std::string_view text, const nlohmann::ordered_json& more = {});
/// A tool without parameters.
nlohmann::ordered_json tool(std::string_view name);

/// What a streamed choice comes to, put together as clients do it.
struct Joined {
  std::string role, content, reasoning, text;
  nlohmann::json calls = nlohmann::json::array();     ///< {id, type, function: {name, arguments}}
  nlohmann::json logprobs = nlohmann::json::array();  ///< chat: the list
  std::vector<std::string> finish_reasons;
};
/// Fails the test where chunks break the rules: role first, one finish reason, at the end.
Joined join(const std::vector<nlohmann::json>& chunks, int index = 0);

}  // namespace inferno::test
