#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <inferno/model.hpp>

#include "chat/chat_template.hpp"
#include "engine/serving_engine.hpp"
#include "server/api/api.hpp"
#include "server/api/constraints.hpp"
#include "server/api/request_limits.hpp"
#include "server/api/think_tags.hpp"
#include "server/api/workers.hpp"

namespace inferno::api {

class Answer;

/// The answers that are under way: who keeps them alive until they are complete.
class Answers {
 public:
  void add(std::shared_ptr<Answer> answer);
  void remove(const Answer* answer);
  void clear();

 private:
  std::mutex mutex_;
  std::unordered_map<const Answer*, std::shared_ptr<Answer>> answers_;
};

/// What all requests share. Outlived by the engine.
struct Service {
  Service(ServingEngine& the_engine, ApiOptions the_options);

  ServingEngine& engine;
  Model model;
  const Tokenizer& tokenizer;
  ApiOptions options;
  std::shared_ptr<const ChatTemplates> templates;
  std::once_flag tools_warned;  ///< once is enough
  RequestLimits limits;
  ThinkTags think_tags;
  TagTokens tag_tokens;
  Constraints constraints;
  std::int64_t created;         ///< seconds since 1970, when it was made
  std::uint32_t context_limit;  ///< positions of a request
  std::size_t wave;             ///< sequences of one request that are in the engine at once
  Answers answers;
  std::weak_ptr<Workers> workers;  ///< of the Api, while there is one
};

/// Seconds since 1970.
std::int64_t now_in_seconds();

}  // namespace inferno::api
