#include "engine/prompt.hpp"

#include <fmt/format.h>

#include <inferno/error.hpp>

namespace inferno {

std::vector<TokenId> make_prompt(const Tokenizer& tokenizer, std::uint32_t vocab_size,
                                 std::vector<TokenId> ids, std::span<const TextSpan> spans) {
  if (ids.empty()) {
    ids = tokenizer.encode(spans);
    if (tokenizer.bos() && (tokenizer.adds_bos() || ids.empty())) ids.insert(ids.begin(), *tokenizer.bos());
    // Something must be fed: an empty prompt starts a text, which is what follows an end of text in training.
    if (ids.empty()) ids.push_back(tokenizer.end_tokens().front());
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<std::uint32_t>(ids[i]) < vocab_size) continue;
    throw UsageError(
        fmt::format("prompt id {} at index {} is outside the vocabulary of {}", ids[i], i, vocab_size));
  }
  return ids;
}

}  // namespace inferno
