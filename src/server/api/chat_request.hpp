#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "chat/conversation.hpp"
#include "server/api/response_format.hpp"
#include "server/api/sampling_fields.hpp"
#include "server/api/tools.hpp"

namespace inferno::api {

/// A body of /v1/chat/completions, checked but for the messages, which src/chat checks when it renders them.
struct ChatRequest {
  Conversation conversation;  ///< with the tools that are offered
  GenerationFields generation;
  std::optional<std::uint32_t> logprobs;  ///< how many beside the chosen one
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  ResponseFormat response_format;
};

/// Throws ApiError naming the field. Takes what it needs out of `body`.
ChatRequest parse_chat_request(Json body, const RequestLimits& limits);

/// The part of it that makes the prompt: messages, tools, chat_template_kwargs, …; also for /tokenize.
/// `offers_tools`: whether the template is shown the tools.
Conversation take_conversation(Json& body, bool offers_tools);

}  // namespace inferno::api
