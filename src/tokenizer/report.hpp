#pragma once

#include <span>
#include <string>

#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// `{"ids": [...], "tokens": [...]}` on one line: the texts of the tokens one by one, with U+FFFD where a
/// token is only part of a character.
std::string tokens_as_json(const Tokenizer& tokenizer, std::span<const TokenId> ids);

/// One line per token for people: id, text as a quoted string in which blanks and control characters show,
/// and whether it is a control token; then the count.
std::string tokens_as_text(const Tokenizer& tokenizer, std::span<const TokenId> ids);

}  // namespace inferno
