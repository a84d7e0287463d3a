#include "engine/generation_loop.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace inferno {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Whether choosing needs nothing but the logits: the executor then needs no slot.
bool is_plain_greedy(const SamplingSettings& settings) {
  return settings.temperature == 0.0F && settings.repetition_penalty == 1.0F &&
         settings.presence_penalty == 0.0F && settings.frequency_penalty == 0.0F &&
         settings.logit_bias.empty();
}

double probability_of(std::span<const float> logits, TokenId id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::exp(static_cast<double>(logits[static_cast<std::size_t>(id)]) - largest) / sum;
}

}  // namespace

GenerationLoop::GenerationLoop(const GenerationContext& context, const Request& request,
                               std::vector<TokenId> prompt, std::uint32_t limit, const TextCallback& on_text)
    : context_(context),
      request_(request),
      on_text_(on_text),
      max_tokens_(std::min(request.max_tokens, limit - static_cast<std::uint32_t>(prompt.size()))),
      pool_(context.executor.limits().blocks),
      cache_(pool_, context.kv_kind, context.executor.limits().block_size, limit),
      sequence_(std::move(prompt)),
      stops_(request.stop) {
  if (request.hash_logits) hash_.emplace();
  generation_.prompt_ids = sequence_;
  if (!is_plain_greedy(request.sampling)) {
    slot_ = 0;
    context_.executor.set_slot(
        slot_, {.settings = request.sampling, .prompt = sequence_, .generated = {}, .allowed = {}});
  }
}

Generation GenerationLoop::run() {
  const auto started = Clock::now();
  auto first_token = started;
  if (max_tokens_ > 0) {
    advance(1, true);
    first_token = Clock::now();
  }
  while (!finished_ && generation_.ids.size() < max_tokens_) {
    const auto left = max_tokens_ - static_cast<std::uint32_t>(generation_.ids.size());
    advance(std::min(context_.options.steps_per_submit, left), false);
  }
  if (!stops_.matched()) {
    emit(stops_.push(decoder_.finish()));
    emit(stops_.finish());
  }

  auto& times = generation_.times;
  if (!generation_.ids.empty()) {
    times.time_to_first_token_ms = std::chrono::duration<double, std::milli>(first_token - started).count();
  }
  if (generation_.ids.size() > 1) {
    const double seconds = milliseconds_since(first_token) / 1000.0;
    times.decode_tokens_per_second = static_cast<double>(generation_.ids.size() - 1) / seconds;
  }
  if (times.forwards > 0) times.forward_mean_ms = forward_total_ms_ / times.forwards;
  if (hash_) generation_.logits_hash = hash_->hex();
  return std::move(generation_);
}

void GenerationLoop::advance(std::uint32_t steps, bool prefill) {
  const auto total = static_cast<std::uint32_t>(sequence_.size());
  if (!cache_.extend(total + steps - 1)) {
    throw Error(fmt::format("the cache has no room for position {}: {} of {} blocks are in use",
                            total + steps - 2, pool_.used(), pool_.capacity()));
  }
  // A cache of kind `none` is always empty here, so the whole sequence is computed again.
  std::uint32_t first = cache_.length();
  while (total - first > context_.options.prefill_chunk) {
    if (context_.cancelled) return finish(FinishReason::cancelled);
    forward(first, context_.options.prefill_chunk, 0, prefill);
    first += context_.options.prefill_chunk;
  }
  if (context_.cancelled) return finish(FinishReason::cancelled);
  forward(first, total - first, steps, prefill);
}

void GenerationLoop::forward(std::uint32_t first, std::uint32_t count, std::uint32_t steps, bool prefill) {
  const bool wants_logits =
      steps > 0 && (hash_ || (context_.observer != nullptr && context_.observer->wants_tokens()));
  std::vector<TokenInput> inputs(count);
  for (std::uint32_t i = 0; i < count; ++i) inputs[i] = TokenInput::of(sequence_[first + i]);
  StepBatch batch;
  batch.add_row(inputs, first, cache_.blocks(), slot_);
  if (steps > 0) batch.add_output(OutputKind::token);
  if (wants_logits) batch.add_output(OutputKind::logits);
  SubmitOptions options;
  options.max_steps = std::max(steps, 1U);
  if (!request_.ignore_end_tokens) {
    const auto ends = context_.model.tokenizer.end_tokens();
    options.stop_ids.ids.assign(ends.begin(), ends.end());
  }
  if (context_.observer != nullptr) options.observer = context_.observer->stages(prefill);

  const auto started = Clock::now();
  const auto result = context_.executor.wait(context_.executor.submit(batch, options));
  const double elapsed = milliseconds_since(started);

  auto& times = generation_.times;
  times.forward_min_ms = times.forwards == 0 ? elapsed : std::min(times.forward_min_ms, elapsed);
  times.forward_max_ms = std::max(times.forward_max_ms, elapsed);
  forward_total_ms_ += elapsed;
  ++times.forwards;
  if (!prefill) generation_.steps += result.steps;
  if (context_.observer != nullptr) context_.observer->forward(prefill, result.steps, elapsed);
  if (result.status[0] == RowStatus::failed) {
    throw Error(fmt::format("{} failed at position {}: {}", context_.executor.capabilities().backend,
                            first + count - 1, result.errors[0]));
  }

  if (steps == 0) return cache_.advance(first + count);
  const auto& ids = result.ids[0];
  cache_.advance(first + count + static_cast<std::uint32_t>(ids.size()) - 1);
  const std::size_t vocab_size = context_.model.loaded.config.vocab_size;
  for (std::size_t step = 0; step < ids.size() && !finished_; ++step) {
    const auto logits = wants_logits ? std::span(result.values[1]).subspan(step * vocab_size, vocab_size)
                                     : std::span<const float>();
    accept(ids[step], logits, prefill);
  }
}

void GenerationLoop::accept(TokenId id, std::span<const float> logits, bool prefill) {
  const auto& tokenizer = context_.model.tokenizer;
  if (hash_) hash_->add(logits);
  if (context_.observer != nullptr && context_.observer->wants_tokens()) {
    context_.observer->token({.number = static_cast<std::uint32_t>(generation_.ids.size()),
                              .id = id,
                              .bytes = std::string(tokenizer.bytes(id)),
                              .probability = probability_of(logits, id),
                              .prefill = prefill});
  }
  sequence_.push_back(id);
  generation_.ids.push_back(id);
  const auto ends = tokenizer.end_tokens();
  if (!request_.ignore_end_tokens && std::find(ends.begin(), ends.end(), id) != ends.end())
    return finish(FinishReason::stop);
  // Control tokens are markup, not text.
  if (!tokenizer.is_control(id)) emit(stops_.push(decoder_.push(tokenizer.bytes(id))));
  if (stops_.matched()) finish(FinishReason::stop);
}

void GenerationLoop::emit(const std::string& text) {
  if (text.empty()) return;
  generation_.text += text;
  if (on_text_ && !on_text_(text)) finish(FinishReason::cancelled);
}

void GenerationLoop::finish(FinishReason reason) {
  if (finished_) return;
  finished_ = true;
  generation_.finish_reason = reason;
}

}  // namespace inferno
