#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// A request's prompt: `ids`, or if there are none the ids of `spans`, with what the model wants before a
/// text. Never empty: a prompt of nothing starts a text. Throws UsageError for an id outside the vocabulary.
std::vector<TokenId> make_prompt(const Tokenizer& tokenizer, std::uint32_t vocab_size,
                                 std::vector<TokenId> ids, std::span<const TextSpan> spans);

}  // namespace inferno
