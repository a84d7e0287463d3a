#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer.hpp"
#include "server/api/completion_request.hpp"
#include "server/api/logprobs.hpp"
#include "server/api/sse.hpp"
#include "server/api/token_gate.hpp"
#include "server/api/usage.hpp"

namespace inferno::api {

/// What a completion's choices are made of.
struct CompletionPlan {
  std::vector<std::vector<TokenId>> prompts;
  /// Of each, the tokens at its beginning that the client did not send and an echo leaves out.
  std::vector<std::size_t> added;
  CompletionRequest request;         ///< its prompts are used up
  std::shared_ptr<const Form> form;  ///< nullptr: any text will do
};

/// An answer of /v1/completions: text as the model wrote it. Choice p * n + c is the c-th of prompt p.
class CompletionAnswer : public Answer {
 public:
  CompletionAnswer(std::shared_ptr<Service> service, std::shared_ptr<http::Exchange> exchange,
                   std::shared_ptr<Presence> presence, CompletionPlan plan);

 protected:
  ServingRequest make_request(std::size_t sequence) override;
  void take(std::size_t sequence, StreamUpdate& update) override;
  std::string closing() override;

 private:
  /// One of a prompt's best_of candidates.
  struct Candidate {
    std::string text;         ///< streamed: not yet sent
    bool has_prompt = false;  ///< the prompt has been put before it, if it is to be echoed
    std::optional<TokenGate> gate;
    CompletionLogprobs logprobs;  ///< streamed: of what was not yet sent
    double sum = 0;               ///< of log-probabilities
    std::size_t tokens = 0;
    std::string_view finish_reason;
    double mean() const { return tokens == 0 ? 0 : sum / static_cast<double>(tokens); }
  };

  bool wants_logprobs() const { return plan_.request.logprobs.has_value(); }
  void begin_text(std::size_t sequence, const std::vector<TokenEvent>& prompt_events);
  void append_chunk(std::size_t index, Candidate& candidate, std::string_view finish_reason);
  void append_body(std::string& out, Candidate& candidate, std::string_view finish_reason) const;
  /// The best of a prompt's candidates, the best first, if there are more than are wanted.
  std::vector<std::size_t> best_of(std::size_t prompt) const;

  CompletionPlan plan_;
  std::string head_;
  ChunkFrame frame_;
  std::vector<Candidate> candidates_;
  std::vector<PlacedToken> ready_;
  Usage usage_;
};

}  // namespace inferno::api
