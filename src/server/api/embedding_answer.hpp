#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/answer.hpp"
#include "server/api/embedding_request.hpp"
#include "server/api/usage.hpp"

namespace inferno::api {

struct EmbeddingPlan {
  std::vector<std::vector<TokenId>> inputs;
  EmbeddingRequest request;  ///< its inputs are used up
};

/// An answer of /v1/embeddings.
class EmbeddingAnswer : public Answer {
 public:
  EmbeddingAnswer(std::shared_ptr<Service> service, std::shared_ptr<http::Exchange> exchange,
                  std::shared_ptr<Presence> presence, EmbeddingPlan plan);

 protected:
  ServingRequest make_request(std::size_t sequence) override;
  void take(std::size_t sequence, StreamUpdate& update) override;
  std::string closing() override;

 private:
  EmbeddingPlan plan_;
  std::vector<std::string> vectors_;  ///< as JSON
  Usage usage_;
};

}  // namespace inferno::api
