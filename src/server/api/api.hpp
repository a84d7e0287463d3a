#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <inferno/sampling.hpp>

#include "chat/chat_template.hpp"
#include "engine/serving_engine.hpp"
#include "server/http/exchange.hpp"

namespace inferno::api {

struct ApiOptions {
  std::string model_name = {};                          ///< empty: the name in the model's file
  std::vector<std::string> aliases = {};                ///< other names that requests may use for it
  std::shared_ptr<const ChatTemplates> templates = {};  ///< nullptr: those of the model's file
  /// What holds where a request says nothing. The seed is not used.
  SamplingSettings sampling = {.temperature = 1.0F, .logit_bias = {}};
  std::string pooling = "mean";     ///< of embeddings: "mean" or "last"
  std::int32_t max_priority = 100;  ///< a request that asks for more gets this
  unsigned threads = 2;             ///< that read requests, render templates and tokenize; at least 2
  std::size_t max_waiting = 1024;   ///< requests that wait for these threads; one more is refused with 429
  std::string fingerprint = "inferno";  ///< system_fingerprint
};

/// Throws UsageError unless all of them can stand in requests and answers as names of a model, and differ.
void check_model_names(const std::vector<std::string>& names);

/// OpenAI's API over a serving engine; docs/api.md has every route and field.
///
/// `handle` may be called from several threads. Destroy it after the threads that call it and that run the
/// exchanges' strands have ended, or at least after the last request, and before the engine: answers that are
/// not complete by then are dropped.
class Api {
 public:
  /// Throws UsageError for options that make no sense, jinja::TemplateError for a chat template that cannot
  /// be read. A model without one serves everything but chat.
  Api(ServingEngine& engine, ApiOptions options);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  /// Answers /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models, /v1/models/{id}, /tokenize
  /// and /detokenize (both also below /v1), and anything else with 404 or 405. Returns at once; never throws.
  void handle(const std::shared_ptr<http::Exchange>& exchange);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inferno::api
