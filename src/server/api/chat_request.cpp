#include "server/api/chat_request.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include <inferno/error.hpp>

#include "engine/serving_request.hpp"
#include "platform/quote.hpp"
#include "server/api/error.hpp"
#include "server/api/template_values.hpp"

namespace inferno::api {
namespace {

/// A member of an object that nobody else holds; null if there is none.
Json take_member(Json& body, std::string_view name) {
  for (auto& [key, value] : body.object()->members()) {
    if (key == name) return std::exchange(value, Json());
  }
  return {};
}

void set_template_variables(Conversation& conversation, Json& body) {
  auto variables = take_member(body, "chat_template_kwargs");
  if (variables.is_null()) return;
  if (variables.object() == nullptr) wrong_type("chat_template_kwargs", "an object", variables);
  for (auto& [key, value] : variables.object()->members()) {
    if (value.is_null()) continue;
    try {
      set_variable(conversation, key, take_template_value(value));
    } catch (const ApiError&) {
      throw;
    } catch (const UsageError& error) {
      throw ApiError(
          400, "invalid_request_error", fmt::format("chat_template_kwargs: {}", error.what()),
          key == "enable_thinking" ? "chat_template_kwargs.enable_thinking" : "chat_template_kwargs",
          std::string(code_of(error)));
    }
  }
}

void refuse_what_is_not_there(const Fields& fields) {
  if (fields.find("chat_template") != nullptr) {
    refuse("chat_template", "a request cannot bring a template of its own", "unsupported");
  }
  if (fields.boolean("continue_final_message").value_or(false)) {
    refuse("continue_final_message", "is not supported", "unsupported");
  }
  if (const auto* modalities = fields.array("modalities")) {
    for (std::size_t i = 0; i < modalities->size(); ++i) {
      const auto* name = (*modalities)[i].string();
      if (name == nullptr) wrong_type(element_path("modalities", i), "a string", (*modalities)[i]);
      if (*name != "text") {
        refuse(element_path("modalities", i),
               fmt::format("expected \"text\", found {}; this model writes text only", quote(*name, 40)),
               "unsupported");
      }
    }
  }
  if (fields.find("audio") != nullptr) refuse("audio", "this model writes text only", "unsupported");
}

/// How much to think; only that it be nothing can be followed.
std::string parse_effort(const Fields& fields) {
  constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
  auto effort = fields.string("reasoning_effort").value_or("medium");
  if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
    refuse("reasoning_effort",
           fmt::format("expected one of {}, found {}", fmt::join(kEfforts, ", "), quote(effort, 40)));
  }
  return effort;
}

std::optional<std::uint32_t> parse_logprobs(const Fields& fields) {
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top.value_or(0) > 0 && !wanted)
    refuse("top_logprobs", "is of use only with \"logprobs\": true", "invalid_value");
  if (!wanted) return std::nullopt;
  return static_cast<std::uint32_t>(top.value_or(0));
}

}  // namespace

Conversation take_conversation(Json& body, bool offers_tools) {
  const Fields fields(body, "");
  refuse_what_is_not_there(fields);
  Conversation conversation;
  conversation.add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
  // Qwen's own services take it here, OpenAI's say it like this.
  const auto effort = parse_effort(fields);
  if (const auto thinks = fields.boolean("enable_thinking")) {
    set_variable(conversation, "enable_thinking", jinja::Value(*thinks));
  } else if (effort == "none") {
    set_variable(conversation, "enable_thinking", jinja::Value(false));
  }
  set_template_variables(conversation, body);
  if (fields.find("messages") == nullptr)
    refuse("messages", "is missing; expected an array of messages", "missing");
  auto messages = take_member(body, "messages");
  conversation.messages = take_template_value(messages);
  auto tools = take_member(body, "tools");
  if (offers_tools) conversation.tools = take_template_value(tools);
  return conversation;
}

ChatRequest parse_chat_request(Json body, const RequestLimits& limits) {
  const Fields fields(body, "");
  check_model(fields, limits);
  ChatRequest request;
  request.generation = parse_generation_fields(fields, limits);
  request.logprobs = parse_logprobs(fields);
  request.tools = parse_tools(fields);
  request.tool_choice = parse_tool_choice(fields, request.tools);
  request.parallel_tool_calls = fields.boolean("parallel_tool_calls").value_or(true);
  request.response_format = parse_response_format(fields);
  const bool offers_tools = request.tool_choice.kind != ToolChoice::Kind::none;
  request.conversation = take_conversation(body, offers_tools);
  return request;
}

}  // namespace inferno::api
