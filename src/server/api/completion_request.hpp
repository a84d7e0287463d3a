#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/api/response_format.hpp"
#include "server/api/sampling_fields.hpp"
#include "server/api/text_inputs.hpp"

namespace inferno::api {

/// As in OpenAI's API.
inline constexpr std::uint32_t kDefaultCompletionTokens = 16;

/// A body of /v1/completions.
struct CompletionRequest {
  std::vector<TextInput> prompts;
  GenerationFields generation;  ///< max_tokens is set
  std::optional<std::uint32_t> logprobs;
  bool echo = false;
  std::uint32_t best_of = 1;  ///< at least n
  ResponseFormat response_format;
};

/// Throws ApiError naming the field.
CompletionRequest parse_completion_request(const Json& body, const RequestLimits& limits);

}  // namespace inferno::api
