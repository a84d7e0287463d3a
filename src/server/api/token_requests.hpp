#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chat/conversation.hpp"
#include "server/api/request_limits.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::api {

/// A body of /tokenize, in llama.cpp's spelling or in vLLM's.
struct TokenizeRequest {
  std::optional<Conversation> conversation;  ///< `messages`: the tokens of the chat prompt
  std::string text;                          ///< `content`, or `prompt`
  bool parse_control = false;                ///< whether <|im_end|> in the text is the token of that name
  bool with_pieces = false;                  ///< llama.cpp's form of `tokens`: {id, piece}
  bool with_strings = false;                 ///< vLLM's `token_strs`
};

/// Throws ApiError naming the field.
TokenizeRequest parse_tokenize_request(Json body, const RequestLimits& limits);
/// A body of /detokenize: `tokens`.
std::vector<TokenId> parse_detokenize_request(const Json& body, const RequestLimits& limits);

}  // namespace inferno::api
