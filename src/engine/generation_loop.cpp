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

double probability_of(std::span<const float> logits, TokenId id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::exp(static_cast<double>(logits[static_cast<std::size_t>(id)]) - largest) / sum;
}

}  // namespace

GenerationLoop::GenerationLoop(const GenerationContext& context, const Request& request,
                               const std::vector<TokenId>& prompt, std::uint32_t limit,
                               const TextCallback& on_text)
    : context_(context),
      on_text_(on_text),
      executor_(&context.executor),
      pool_(context.executor.limits().blocks),
      cache_(pool_, context.kv_kind, context.executor.limits().block_size, limit),
      sequence_(
          context.model.tokenizer, prompt, request.sampling,
          {.max_tokens = std::min(request.max_tokens, limit - static_cast<std::uint32_t>(prompt.size())),
           .stop = request.stop,
           .ignore_end_tokens = request.ignore_end_tokens}) {
  if (request.hash_logits) hash_.emplace();
  if (!sequence_.needs_slot()) return;
  slot_ = 0;
  executor_->set_slot(slot_, sequence_.slot_state());
}

Generation GenerationLoop::run() {
  const auto started = Clock::now();
  auto first_token = started;
  if (!sequence_.finish_reason()) {
    advance(1, true);
    first_token = Clock::now();
  }
  while (!sequence_.finish_reason()) {
    const auto left = sequence_.max_tokens() - sequence_.generated();
    advance(std::min(context_.options.steps_per_submit, left), false);
  }
  emit(sequence_.flush());
  generation_.finish_reason = *sequence_.finish_reason();
  generation_.prompt_ids.assign(sequence_.prompt_ids().begin(), sequence_.prompt_ids().end());
  generation_.ids.assign(sequence_.generated_ids().begin(), sequence_.generated_ids().end());

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
  const auto wanted = sequence_.generated() + steps;
  while (!sequence_.finish_reason() && sequence_.generated() < wanted) {
    try {
      return try_to_advance(wanted - sequence_.generated(), prefill);
    } catch (const DeviceLost& lost) {
      if (thrown_) std::rethrow_exception(thrown_);
      if (generation_.moved_from.empty()) generation_.moved_from = executor_->capabilities().backend;
      move_to(context_.successor(lost));
    }
  }
}

void GenerationLoop::move_to(Executor& executor) {
  executor_ = &executor;
  cache_.truncate(0);
  if (slot_ != kGreedySlot) executor_->set_slot(slot_, sequence_.slot_state());
}

void GenerationLoop::try_to_advance(std::uint32_t steps, bool prefill) {
  const auto total = sequence_.size();
  if (!cache_.extend(total + steps - 1)) {
    throw Error(fmt::format("the cache has no room for position {}: {} of {} blocks are in use",
                            total + steps - 2, pool_.used(), pool_.capacity()));
  }
  // A cache of kind `none` is always empty here, so the whole sequence is computed again.
  std::uint32_t first = cache_.length();
  while (total - first > context_.options.prefill_chunk) {
    if (context_.cancelled) return sequence_.finish(FinishReason::cancelled);
    forward(first, context_.options.prefill_chunk, 0, prefill);
    first += context_.options.prefill_chunk;
  }
  if (context_.cancelled) return sequence_.finish(FinishReason::cancelled);
  forward(first, total - first, steps, prefill);
}

void GenerationLoop::forward(std::uint32_t first, std::uint32_t count, std::uint32_t steps, bool prefill) {
  const bool wants_logits =
      steps > 0 && (hash_ || (context_.observer != nullptr && context_.observer->wants_tokens()));
  std::vector<TokenInput> inputs(count);
  for (std::uint32_t i = 0; i < count; ++i) inputs[i] = TokenInput::of(sequence_.tokens()[first + i]);
  StepBatch batch;
  batch.add_row(inputs, first, cache_.blocks(), slot_);
  if (wants_logits) batch.add_output(OutputKind::logits);  // first: a token is taken in with its logits
  if (steps > 0) batch.add_output(OutputKind::token);
  SubmitOptions options;
  options.max_steps = std::max(steps, 1U);
  options.sink = this;
  options.cancelled = &context_.cancelled;
  options.stop_ids.ids = sequence_.ending_ids();
  if (context_.observer != nullptr) options.observer = context_.observer->stages(prefill);

  const auto started = Clock::now();
  prefill_ = prefill;
  ticket_ = executor_->submit(batch, options);
  const auto result = executor_->wait(ticket_);
  const double elapsed = milliseconds_since(started);

  auto& times = generation_.times;
  times.forward_min_ms = times.forwards == 0 ? elapsed : std::min(times.forward_min_ms, elapsed);
  times.forward_max_ms = std::max(times.forward_max_ms, elapsed);
  forward_total_ms_ += elapsed;
  ++times.forwards;
  if (!prefill) generation_.steps += result.steps;
  if (context_.observer != nullptr) context_.observer->forward(prefill, result.steps, elapsed);
  if (thrown_) std::rethrow_exception(thrown_);
  if (result.status[0] == RowStatus::failed) {
    throw Error(fmt::format("{} failed at position {}: {}", executor_->capabilities().backend,
                            first + count - 1, result.errors[0]));
  }

  // What was cancelled before its first step has written nothing.
  if (result.steps > 0) cache_.advance(first + count + result.steps - 1);
  if (result.status[0] == RowStatus::cancelled) sequence_.finish(FinishReason::cancelled);
}

void GenerationLoop::take(std::uint32_t /*output*/, std::uint32_t /*step*/, std::span<const float> logits) {
  logits_.assign(logits.begin(), logits.end());
}

void GenerationLoop::take_token(std::uint32_t /*output*/, std::uint32_t /*step*/, std::int32_t id) {
  if (thrown_ || sequence_.finish_reason()) return;  // the device went on before it heard
  try {
    accept(id);
  } catch (...) {
    thrown_ = std::current_exception();
  }
  if (thrown_ || sequence_.finish_reason()) executor_->cancel(ticket_);
}

void GenerationLoop::accept(TokenId id) {
  if (hash_) hash_->add(logits_);
  if (context_.observer != nullptr && context_.observer->wants_tokens()) {
    context_.observer->token({.number = sequence_.generated(),
                              .id = id,
                              .bytes = std::string(context_.model.tokenizer.bytes(id)),
                              .probability = probability_of(logits_, id),
                              .prefill = prefill_});
  }
  emit(sequence_.accept(id));
}

void GenerationLoop::emit(const std::string& text) {
  if (text.empty()) return;
  generation_.text += text;
  if (on_text_ && !on_text_(text)) sequence_.finish(FinishReason::cancelled);
}

}  // namespace inferno
