#include "server/api/completion_request.hpp"

#include <fmt/format.h>

#include "engine/serving_request.hpp"
#include "server/api/error.hpp"

namespace inferno::api {

CompletionRequest parse_completion_request(const Json& body, const RequestLimits& limits) {
  const Fields fields(body, "");
  check_model(fields, limits);
  CompletionRequest request;
  request.generation = parse_generation_fields(fields, limits);
  if (!request.generation.max_tokens) request.generation.max_tokens = kDefaultCompletionTokens;
  request.prompts = parse_text_inputs(fields, "prompt", limits);
  if (const auto suffix = fields.string("suffix"); suffix && !suffix->empty()) {
    refuse("suffix", "is not supported; the model only goes on after a prompt", "unsupported");
  }
  request.echo = fields.boolean("echo").value_or(false);
  if (const auto count = fields.integer("logprobs", 0, kMaxTopLogprobs)) {
    request.logprobs = static_cast<std::uint32_t>(*count);
  }
  request.best_of =
      static_cast<std::uint32_t>(fields.integer("best_of", 1, kMaxChoices).value_or(request.generation.n));
  if (request.best_of < request.generation.n) {
    refuse("best_of", fmt::format("expected at least n, {}, found {}", request.generation.n, request.best_of),
           "out_of_range");
  }
  if (request.generation.stream && request.best_of > request.generation.n) {
    refuse("best_of", "cannot be streamed: which choices are the best is known at the end", "unsupported");
  }
  if (request.prompts.size() * request.best_of > kMaxSequences) {
    refuse("prompt",
           fmt::format("expected at most {} prompts times choices, found {} times {}", kMaxSequences,
                       request.prompts.size(), request.best_of),
           "out_of_range");
  }
  request.response_format = parse_response_format(fields);
  return request;
}

}  // namespace inferno::api
