#include "server/api/token_requests.hpp"

#include <utility>

#include "server/api/chat_request.hpp"
#include "server/api/error.hpp"
#include "server/api/sampling_fields.hpp"

namespace inferno::api {

TokenizeRequest parse_tokenize_request(Json body, const RequestLimits& limits) {
  const Fields fields(body, "");
  check_model(fields, limits);
  TokenizeRequest request;
  request.with_pieces = fields.boolean("with_pieces").value_or(false);
  request.with_strings = fields.boolean("return_token_strs").value_or(false);
  const auto content = fields.string("content");
  const auto prompt = fields.string("prompt");
  // A prompt is counted as /v1/completions counts it, a content as text that somebody typed.
  request.parse_control = fields.boolean("parse_special").value_or(prompt.has_value());
  if (fields.find("messages") != nullptr) {
    if (content || prompt) refuse("messages", "cannot go together with content or prompt", "invalid_value");
    // Counted as /v1/chat/completions counts it, and refused as it would refuse it.
    const auto choice = parse_tool_choice(fields, parse_tools(fields));
    request.conversation = take_conversation(body, choice.kind != ToolChoice::Kind::none);
    return request;
  }
  if (content && prompt) refuse("prompt", "cannot go together with content", "invalid_value");
  if (!content && !prompt)
    refuse("content", "is missing; expected a text (or prompt, or messages)", "missing");
  request.text = content ? *content : *prompt;
  return request;
}

std::vector<TokenId> parse_detokenize_request(const Json& body, const RequestLimits& limits) {
  const Fields fields(body, "");
  check_model(fields, limits);
  const auto* tokens = fields.array("tokens");
  if (tokens == nullptr) refuse("tokens", "is missing; expected an array of token ids", "missing");
  return parse_token_ids(*tokens, "tokens", limits.vocab_size);
}

}  // namespace inferno::api
