#include "server/api/handlers.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <utility>
#include <variant>

#include "platform/log.hpp"
#include "platform/quote.hpp"
#include "server/api/chat_answer.hpp"
#include "server/api/completion_answer.hpp"
#include "server/api/embedding_answer.hpp"
#include "server/api/json_text.hpp"
#include "server/api/token_requests.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::api {
namespace {

Json body_of(const Incoming& incoming) {
  return parse_json(incoming.exchange->request().body);
}

template <typename AnswerType, typename Plan>
void run(const Incoming& incoming, Plan plan) {
  // Who has left meanwhile costs no more.
  if (incoming.presence->gone) return;
  std::make_shared<AnswerType>(incoming.service, incoming.exchange, incoming.presence, std::move(plan))
      ->submit();
}

std::vector<TokenId> encode(const Service& service, const std::vector<TextSpan>& spans) {
  ServingRequest request;
  request.prompt_spans = spans;
  return service.engine.prompt_of(request);
}

/// `trusted`: control tokens in texts are recognized.
std::vector<std::vector<TokenId>> encode_all(const Service& service, std::vector<TextInput> inputs,
                                             bool trusted) {
  std::vector<std::vector<TokenId>> result;
  result.reserve(inputs.size());
  for (auto& input : inputs) {
    if (auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
      result.push_back(std::move(*ids));
    } else {
      result.push_back(encode(service, {{std::get<std::string>(input), trusted}}));
    }
  }
  return result;
}

/// Says of a list which one is too long; the engine says it of a single one. `room`: tokens that must follow.
void check_lengths(const Service& service, const std::vector<std::vector<TokenId>>& inputs, std::size_t room,
                   const std::string& param) {
  if (inputs.size() < 2) return;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].size() + room <= service.context_limit) continue;
    refuse(element_path(param, i),
           fmt::format("has {} tokens; {} is the limit{}", inputs[i].size(), service.context_limit,
                       room > 0 ? " of prompt and completion together" : ""),
           "context_length_exceeded");
  }
}

/// How many tokens at most stand before what was sent: one that begins every text, or those that stand for a
/// text without any.
std::size_t added_tokens(const Service& service, const TextInput& input) {
  const auto* text = std::get_if<std::string>(&input);
  if (text == nullptr) return 0;
  if (text->empty()) return std::numeric_limits<std::size_t>::max();
  return service.tokenizer.bos() && service.tokenizer.adds_bos() ? 1 : 0;
}

/// Once: what is true of the template stays true. `conversation` has tools.
void warn_of_tools(Service& service, const Conversation& conversation) {
  std::call_once(service.tools_warned, [&] {
    const auto warning = service.templates->tools_warning(conversation);
    if (!warning.empty()) log().warn("{}", warning);
  });
}

void append_piece(std::string& out, std::string_view bytes) {
  if (utf8_valid_prefix(bytes) == bytes.size()) {
    append_json_string(out, bytes);
  } else {
    append_json_bytes(out, bytes);
  }
}

void append_model(std::string& out, const Service& service, const std::string& id) {
  out += R"({"id":)";
  append_json_string(out, id);
  fmt::format_to(std::back_inserter(out), R"(,"object":"model","created":{},"owned_by":"inferno","root":)",
                 service.created);
  append_json_string(out, service.options.model_name);
  fmt::format_to(std::back_inserter(out), R"(,"parent":null,"max_model_len":{}}})", service.context_limit);
}

}  // namespace

Handled answer_chat(const Incoming& incoming) {
  auto& service = *incoming.service;
  auto request = parse_chat_request(body_of(incoming), service.limits);
  if (!incoming.is_large && is_costly(request.response_format, request.tools, request.tool_choice)) {
    return Handled::as_large;
  }
  using Kind = ToolChoice::Kind;
  ChatPlan plan;
  plan.form = service.constraints.compile(request.response_format, request.tools, request.tool_choice,
                                          request.parallel_tool_calls);
  plan.plain_content = request.response_format.kind != ResponseFormat::Kind::text;
  plan.parses_calls = request.tool_choice.kind != Kind::none;
  plan.single_call = request.tool_choice.kind == Kind::automatic && !request.parallel_tool_calls;
  plan.logprobs = request.logprobs;
  {
    const auto prompt = service.templates->render(request.conversation);
    if (plan.parses_calls && !request.tools.empty()) warn_of_tools(service, request.conversation);
    plan.thoughts = thoughts_after(prompt, service.think_tags);
    plan.prompt = encode(service, prompt.spans());
  }
  plan.generation = std::move(request.generation);
  run<ChatAnswer>(incoming, std::move(plan));
  return Handled::yes;
}

Handled answer_completion(const Incoming& incoming) {
  auto& service = *incoming.service;
  CompletionPlan plan;
  plan.request = parse_completion_request(body_of(incoming), service.limits);
  if (!incoming.is_large && is_costly(plan.request.response_format)) return Handled::as_large;
  plan.form = service.constraints.compile(plan.request.response_format);
  for (const auto& input : plan.request.prompts) plan.added.push_back(added_tokens(service, input));
  plan.prompts = encode_all(service, std::exchange(plan.request.prompts, {}), true);
  for (std::size_t i = 0; i < plan.added.size(); ++i) {
    plan.added[i] = std::min(plan.added[i], plan.prompts[i].size());
  }
  check_lengths(service, plan.prompts, plan.request.generation.max_tokens != 0U ? 1 : 0, "prompt");
  run<CompletionAnswer>(incoming, std::move(plan));
  return Handled::yes;
}

Handled answer_embedding(const Incoming& incoming) {
  EmbeddingPlan plan;
  plan.request = parse_embedding_request(body_of(incoming), incoming.service->limits);
  plan.inputs = encode_all(*incoming.service, std::exchange(plan.request.inputs, {}), false);
  check_lengths(*incoming.service, plan.inputs, 0, "input");
  run<EmbeddingAnswer>(incoming, std::move(plan));
  return Handled::yes;
}

Handled answer_tokenize(const Incoming& incoming) {
  const auto& service = *incoming.service;
  const auto request = parse_tokenize_request(body_of(incoming), service.limits);
  const auto& tokenizer = service.tokenizer;
  std::vector<TokenId> ids;
  if (request.conversation) {
    const auto prompt = service.templates->render(*request.conversation);
    ids = tokenizer.encode(prompt.spans());
  } else {
    ids = tokenizer.encode(request.text, request.parse_control);
  }
  std::string out = R"({"tokens":)";
  if (request.with_pieces) {
    out += '[';
    for (const auto id : ids) {
      if (out.back() != '[') out += ',';
      out += R"({"id":)";
      append_json_integer(out, id);
      out += R"(,"piece":)";
      append_piece(out, tokenizer.bytes(id));
      out += '}';
    }
    out += ']';
  } else {
    append_json_ids(out, ids);
  }
  fmt::format_to(std::back_inserter(out), R"(,"count":{},"max_model_len":{})", ids.size(),
                 service.context_limit);
  if (request.with_strings) {
    out += R"(,"token_strs":[)";
    for (const auto id : ids) {
      if (out.back() != '[') out += ',';
      append_json_string(out, tokenizer.bytes(id));
    }
    out += ']';
  }
  out += '}';
  incoming.exchange->respond({.body = std::move(out)});
  return Handled::yes;
}

Handled answer_detokenize(const Incoming& incoming) {
  const auto& service = *incoming.service;
  const auto ids = parse_detokenize_request(body_of(incoming), service.limits);
  const auto text = service.tokenizer.decode(ids);
  std::string out = R"({"content":)";
  append_json_string(out, text);
  out += R"(,"prompt":)";
  append_json_string(out, text);
  out += '}';
  incoming.exchange->respond({.body = std::move(out)});
  return Handled::yes;
}

std::string model_list(const Service& service) {
  std::string out = R"({"object":"list","data":[)";
  for (const auto& name : service.limits.models) {
    if (out.back() != '[') out += ',';
    append_model(out, service, name);
  }
  out += "]}";
  return out;
}

std::string model_entry(const Service& service, const std::string& id) {
  const auto& names = service.limits.models;
  if (std::find(names.begin(), names.end(), id) == names.end()) throw unknown_model(id, service.limits);
  std::string out;
  append_model(out, service, id);
  return out;
}

}  // namespace inferno::api
