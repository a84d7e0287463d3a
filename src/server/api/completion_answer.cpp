#include "server/api/completion_answer.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "server/api/answer_head.hpp"
#include "server/api/json_text.hpp"
#include "server/api/random_ids.hpp"

namespace inferno::api {
CompletionAnswer::CompletionAnswer(std::shared_ptr<Service> service, std::shared_ptr<http::Exchange> exchange,
                                   std::shared_ptr<Presence> presence, CompletionPlan plan)
    : Answer(std::move(service), std::move(exchange), std::move(presence),
             plan.prompts.size() * plan.request.best_of, plan.request.generation.stream),
      plan_(std::move(plan)),
      head_(answer_head(random_id("cmpl-"), "text_completion", now_in_seconds(), this->service().options)),
      candidates_(plan_.prompts.size() * plan_.request.best_of),
      usage_(plan_.prompts.size()) {
  if (!streams()) return;
  std::uint64_t prompt_tokens = 0;
  for (const auto& prompt : plan_.prompts) prompt_tokens += prompt.size();
  frame_ = ChunkFrame(head_, plan_.request.generation.usage, prompt_tokens);
}

ServingRequest CompletionAnswer::make_request(std::size_t sequence) {
  const auto& wanted = plan_.request;
  const auto& generation = wanted.generation;
  ServingRequest request;
  request.prompt_ids = plan_.prompts[sequence / wanted.best_of];
  request.max_tokens = generation.max_tokens;
  request.sampling = generation.sampling;
  // Every prompt of a list gets what it would get alone.
  request.sampling.seed =
      choice_seed(generation.sampling.seed, static_cast<std::uint32_t>(sequence % wanted.best_of));
  request.stop = generation.stop;
  request.stop_ids = generation.stop_ids;
  request.ignore_end_tokens = generation.ignore_end_tokens;
  request.logprobs = wanted.logprobs;
  if (wanted.best_of > generation.n && !request.logprobs) request.logprobs = 0;
  if (wanted.echo) request.prompt_logprobs = wanted.logprobs;
  request.priority = generation.scheduling.priority;
  request.cache_namespace = generation.scheduling.cache_namespace;
  if (plan_.form) request.constraint = plan_.form->constrain(Thoughts::none);
  return request;
}

void CompletionAnswer::begin_text(std::size_t sequence, const std::vector<TokenEvent>& prompt_events) {
  auto& candidate = candidates_[sequence];
  candidate.has_prompt = true;
  const auto& tokenizer = service().tokenizer;
  std::size_t offset = 0;
  if (plan_.request.echo) {
    const auto prompt = sequence / plan_.request.best_of;
    const auto added = plan_.added[prompt];
    TextPlaces places;
    for (std::size_t i = added; i < prompt_events.size(); ++i) {
      const auto& event = prompt_events[i];
      candidate.logprobs.add({event, places.push(tokenizer.bytes(event.id)).characters}, i == 0, tokenizer);
    }
    candidate.text = to_valid_utf8(tokenizer.decode(std::span(plan_.prompts[prompt]).subspan(added)));
    offset = count_characters(candidate.text);
  }
  if (wants_logprobs()) candidate.gate.emplace(tokenizer, offset);
}

void CompletionAnswer::take(std::size_t sequence, StreamUpdate& update) {
  auto& candidate = candidates_[sequence];
  if (!candidate.has_prompt) begin_text(sequence, update.prompt);
  for (auto& event : update.tokens) {
    candidate.text += event.text;
    candidate.sum += static_cast<double>(event.logprob);
    ++candidate.tokens;
    if (!candidate.gate) continue;
    const auto certain = event.text.size();
    candidate.gate->push(std::move(event));
    candidate.gate->release(certain, ready_);
  }
  if (update.outcome) {
    candidate.text += update.outcome->text;
    if (candidate.gate) candidate.gate->finish(*update.outcome, ready_);
    candidate.finish_reason = update.outcome->end == RequestEnd::length ? "length" : "stop";
    usage_.add(sequence / plan_.request.best_of, update.outcome->usage, 0);
  }
  for (const auto& token : ready_) {
    // Without an echo something stands before the first token all the same: the prompt.
    candidate.logprobs.add(token, false, service().tokenizer);
  }
  ready_.clear();
  if (!streams()) return;
  if (!candidate.text.empty()) append_chunk(sequence, candidate, {});
  if (update.outcome) append_chunk(sequence, candidate, candidate.finish_reason);
}

void CompletionAnswer::append_body(std::string& out, Candidate& candidate,
                                   std::string_view finish_reason) const {
  out += R"(,"text":)";
  append_json_string(out, candidate.text);
  out += R"(,"logprobs":)";
  if (!wants_logprobs() || (streams() && candidate.logprobs.empty())) {
    out += "null";
  } else {
    candidate.logprobs.append_to(out);
  }
  out += R"(,"finish_reason":)";
  append_json_string_or_null(out, finish_reason);
}

void CompletionAnswer::append_chunk(std::size_t index, Candidate& candidate, std::string_view finish_reason) {
  frame_.open(out(), index);
  append_body(out(), candidate, finish_reason);
  frame_.close(out(), generated_tokens());
  candidate.text.clear();
  candidate.logprobs.clear();
}

std::vector<std::size_t> CompletionAnswer::best_of(std::size_t prompt) const {
  std::vector<std::size_t> places(plan_.request.best_of);
  std::iota(places.begin(), places.end(), prompt * plan_.request.best_of);
  if (plan_.request.best_of > plan_.request.generation.n) {
    std::stable_sort(places.begin(), places.end(), [this](std::size_t left, std::size_t right) {
      return candidates_[left].mean() > candidates_[right].mean();
    });
    places.resize(plan_.request.generation.n);
  }
  return places;
}

std::string CompletionAnswer::closing() {
  std::string usage;
  usage_.append_to(usage);
  std::string text;
  if (streams()) {
    if (plan_.request.generation.usage != StreamUsage::never) frame_.append_usage(text, usage);
    text += kDone;
    return text;
  }
  text.append("{").append(head_).append(R"("choices":[)");
  std::int64_t index = 0;
  for (std::size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
    for (const auto place : best_of(prompt)) {
      text += index == 0 ? R"({"index":)" : R"(,{"index":)";
      append_json_integer(text, index++);
      append_body(text, candidates_[place], candidates_[place].finish_reason);
      text += '}';
    }
  }
  text.append(R"(],"usage":)").append(usage).append("}");
  return text;
}

}  // namespace inferno::api
