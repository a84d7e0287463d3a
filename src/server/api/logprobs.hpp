#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/serving_request.hpp"
#include "server/api/token_gate.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::api {

/// Appends a token to a chat's list, with a comma if it is not the first of `out`:
/// {"token", "logprob", "bytes", "top_logprobs": [{"token", "logprob", "bytes"}, …]}.
/// A token that is no text, such as a part of a character, is named by its bytes: \xf0\x9f. `bytes` has them
/// as numbers. Control tokens have none (null).
void append_chat_logprob(std::string& out, const TokenEvent& event, const Tokenizer& tokenizer);

/// The four parallel lists of a completion's log-probabilities, as JSON without their brackets.
class CompletionLogprobs {
 public:
  /// `is_first`: nothing stands before it, so nothing is known of its probability: null.
  void add(const PlacedToken& token, bool is_first, const Tokenizer& tokenizer);
  bool empty() const { return tokens_.empty(); }
  /// {"text_offset", "token_logprobs", "tokens", "top_logprobs"}
  void append_to(std::string& out) const;
  void clear();

 private:
  std::string tokens_, token_logprobs_, top_logprobs_, offsets_;
};

}  // namespace inferno::api
