#include "server/api/chat_answer.hpp"

#include <algorithm>
#include <utility>

#include "server/api/answer_head.hpp"
#include "server/api/json_text.hpp"
#include "server/api/logprobs.hpp"
#include "server/api/random_ids.hpp"
#include "server/api/single_call.hpp"

namespace inferno::api {

OutputParserOptions ChatPlan::parser_options(const TagTokens& tokens) const {
  return {.begins_in_reasoning = thoughts == Thoughts::begun,
          .plain_content = plain_content,
          .tool_calls = parses_calls,
          .tags_are_told = form && tokens.complete()};
}

ChatAnswer::Choice::Choice(const Service& service, const ChatPlan& plan)
    : parser(plan.parser_options(service.tag_tokens)),
      thoughts(service.tokenizer, service.think_tags, plan.thoughts == Thoughts::begun) {
  if (plan.logprobs) gate.emplace(service.tokenizer, 0);
  if (plan.parser_options(service.tag_tokens).tags_are_told) places.emplace();
}

ChatAnswer::ChatAnswer(std::shared_ptr<Service> service, std::shared_ptr<http::Exchange> exchange,
                       std::shared_ptr<Presence> presence, ChatPlan plan)
    : Answer(std::move(service), std::move(exchange), std::move(presence), plan.generation.n,
             plan.generation.stream),
      plan_(std::move(plan)),
      id_(random_id("chatcmpl-")),
      created_(now_in_seconds()),
      usage_(1) {
  choices_.reserve(plan_.generation.n);
  for (std::uint32_t i = 0; i < plan_.generation.n; ++i) choices_.emplace_back(this->service(), plan_);
  if (!streams()) return;
  frame_ = ChunkFrame(answer_head(id_, "chat.completion.chunk", created_, this->service().options),
                      plan_.generation.usage, plan_.prompt.size());
}

ServingRequest ChatAnswer::make_request(std::size_t sequence) {
  const auto& generation = plan_.generation;
  ServingRequest request;
  request.prompt_ids = plan_.prompt;
  request.max_tokens = generation.max_tokens;
  request.sampling = generation.sampling;
  request.sampling.seed = choice_seed(generation.sampling.seed, static_cast<std::uint32_t>(sequence));
  request.stop = generation.stop;
  request.stop_ids = generation.stop_ids;
  request.ignore_end_tokens = generation.ignore_end_tokens;
  request.logprobs = plan_.logprobs;
  request.priority = generation.scheduling.priority;
  request.cache_namespace = generation.scheduling.cache_namespace;
  if (plan_.form) {
    request.constraint = plan_.form->constrain(plan_.thoughts);
  } else if (plan_.single_call) {
    request.constraint =
        end_after_first_call(service().tokenizer, plan_.parser_options(service().tag_tokens));
  }
  return request;
}

/// Of a token whose text may be still to come: it may be held back for a stop string.
void ChatAnswer::tell_tag(Choice& choice, TokenId id) const {
  const auto& tokenizer = service().tokenizer;
  if (!choice.places || tokenizer.is_control(id)) return;
  const auto place = choice.places->push(tokenizer.bytes(id));
  if (service().tag_tokens.contains(id)) choice.parser.tag_at(place.bytes);
}

/// A call begins behind the '>' of its tag. Cut there, a piece has content either before a call or in place
/// of one that turned out to be none, never both.
void ChatAnswer::parse(Choice& choice, std::string_view text, OutputDelta& news) const {
  while (!text.empty()) {
    const auto size = std::min(text.find('>'), text.size() - 1) + 1;
    add(choice, choice.parser.push(text.substr(0, size)), news);
    text.remove_prefix(size);
  }
}

void ChatAnswer::add(Choice& choice, OutputDelta delta, OutputDelta& news) const {
  if (!streams()) {
    choice.reasoning += delta.reasoning;
    choice.content += delta.content;
  } else {
    news.reasoning += delta.reasoning;
    news.content += delta.content;
  }
  for (auto& call : delta.calls) {
    if (call.begins) choice.calls.push_back({random_id("call_"), call.name, {}});
    auto& own = choice.calls[call.index];
    own.is_whole = own.is_whole || call.ends;
    if (!streams()) {
      own.arguments += call.arguments;
    } else if (call.begins || !call.arguments.empty()) {
      news.calls.push_back(std::move(call));
    }
  }
}

void ChatAnswer::take(std::size_t sequence, StreamUpdate& update) {
  auto& choice = choices_[sequence];
  OutputDelta news;
  for (auto& event : update.tokens) {
    choice.thoughts.push(event.id);
    tell_tag(choice, event.id);
    parse(choice, event.text, news);
    if (!choice.gate) continue;
    const auto certain = event.text.size();
    choice.gate->push(std::move(event));
    choice.gate->release(certain, ready_);
  }
  if (update.outcome) {
    parse(choice, update.outcome->text, news);
    const bool is_cut = update.outcome->stop_string || update.outcome->end == RequestEnd::length;
    add(choice, choice.parser.finish(is_cut), news);
    if (choice.gate) choice.gate->finish(*update.outcome, ready_);
  }
  for (const auto& token : ready_) append_chat_logprob(choice.logprobs, token.event, service().tokenizer);
  ready_.clear();
  if (update.outcome) {
    const bool has_calls =
        std::any_of(choice.calls.begin(), choice.calls.end(), [](const Call& call) { return call.is_whole; });
    // Whoever was sent the beginning of a call must not take it for one, whatever cut it off or spoiled it.
    const bool is_cut = update.outcome->end == RequestEnd::length || choice.parser.ended_in_call() ||
                        (streams() && choice.parser.has_false_call());
    choice.finish_reason = is_cut ? "length" : has_calls ? "tool_calls" : "stop";
    usage_.add(0, update.outcome->usage, choice.thoughts.count());
  }
  if (!streams()) return;
  if (!news.empty()) append_chunk(sequence, choice, news, {});
  if (update.outcome) append_chunk(sequence, choice, {}, choice.finish_reason);
}

std::string ChatAnswer::opening() {
  std::string out;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    frame_.open(out, i);
    out += R"(,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null)";
    frame_.close(out, 0);
  }
  return out;
}

void ChatAnswer::append_call_news(const Choice& choice, const ToolCallDelta& call) {
  auto& text = out();
  text += R"({"index":)";
  append_json_integer(text, static_cast<std::int64_t>(call.index));
  if (call.begins) {
    text += R"(,"id":)";
    append_json_string(text, choice.calls[call.index].id);
    text += R"(,"type":"function","function":{"name":)";
    append_json_string(text, call.name);
    text += R"(,"arguments":)";
  } else {
    text += R"(,"function":{"arguments":)";
  }
  append_json_string(text, call.arguments);
  text += "}}";
}

void ChatAnswer::append_chunk(std::size_t index, Choice& choice, const OutputDelta& news,
                              std::string_view finish_reason) {
  auto& text = out();
  frame_.open(text, index);
  text += R"(,"delta":{)";
  if (!news.reasoning.empty()) {
    text += R"("reasoning_content":)";
    append_json_string(text, news.reasoning);
  }
  if (!news.content.empty()) {
    if (text.back() != '{') text += ',';
    text += R"("content":)";
    append_json_string(text, news.content);
  }
  if (!news.calls.empty()) {
    if (text.back() != '{') text += ',';
    text += R"("tool_calls":[)";
    for (const auto& call : news.calls) {
      if (&call != news.calls.data()) text += ',';
      append_call_news(choice, call);
    }
    text += ']';
  }
  text += "},";
  append_logprobs(text, choice);
  text += R"(,"finish_reason":)";
  append_json_string_or_null(text, finish_reason);
  frame_.close(text, generated_tokens());
}

void ChatAnswer::append_logprobs(std::string& out, Choice& choice) const {
  // A chunk without certain tokens has no list; the whole answer always has one, if it was asked for.
  if (!choice.gate || (streams() && choice.logprobs.empty())) {
    out += R"("logprobs":null)";
    return;
  }
  out.append(R"("logprobs":{"content":[)").append(choice.logprobs).append(R"(],"refusal":null})");
  choice.logprobs.clear();
}

void ChatAnswer::append_choice(std::string& out, std::size_t index, Choice& choice) const {
  // A call that was cut off is none.
  std::erase_if(choice.calls, [](const Call& call) { return !call.is_whole; });
  out += R"({"index":)";
  append_json_integer(out, static_cast<std::int64_t>(index));
  out += R"(,"message":{"role":"assistant","content":)";
  if (choice.content.empty() && !choice.calls.empty()) {
    out += "null";
  } else {
    append_json_string(out, choice.content);
  }
  if (!choice.reasoning.empty()) {
    out += R"(,"reasoning_content":)";
    append_json_string(out, choice.reasoning);
  }
  out += R"(,"refusal":null)";
  if (!choice.calls.empty()) {
    out += R"(,"tool_calls":[)";
    for (const auto& call : choice.calls) {
      if (&call != choice.calls.data()) out += ',';
      out += R"({"id":)";
      append_json_string(out, call.id);
      out += R"(,"type":"function","function":{"name":)";
      append_json_string(out, call.name);
      out += R"(,"arguments":)";
      append_json_string(out, call.arguments);
      out += "}}";
    }
    out += ']';
  }
  out += "},";
  append_logprobs(out, choice);
  out += R"(,"finish_reason":)";
  append_json_string(out, choice.finish_reason);
  out += '}';
}

std::string ChatAnswer::closing() {
  std::string usage;
  usage_.append_to(usage);
  std::string text;
  if (streams()) {
    if (plan_.generation.usage != StreamUsage::never) frame_.append_usage(text, usage);
    text += kDone;
    return text;
  }
  text += R"({)";
  text += answer_head(id_, "chat.completion", created_, service().options);
  text += R"("choices":[)";
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    if (i > 0) text += ',';
    append_choice(text, i, choices_[i]);
  }
  text.append(R"(],"usage":)").append(usage).append("}");
  return text;
}

}  // namespace inferno::api
