#include "engine/sequence.hpp"

#include <algorithm>
#include <utility>

namespace inferno {

Sequence::Sequence(const Tokenizer& tokenizer, std::vector<TokenId> prompt, SamplingSettings sampling,
                   SequenceEnding ending)
    : tokenizer_(tokenizer),
      sampling_(std::move(sampling)),
      ending_(std::move(ending)),
      prompt_size_(static_cast<std::uint32_t>(prompt.size())),
      tokens_(std::move(prompt)),
      stops_(ending_.stop) {
  if (ending_.max_tokens == 0) finish_reason_ = FinishReason::length;
}

std::uint32_t Sequence::most_positions() const {
  return prompt_size_ + (ending_.max_tokens == 0 ? 0 : ending_.max_tokens - 1);
}

bool Sequence::needs_slot() const {
  return sampling_.temperature != 0.0F || uses_history(sampling_) || !sampling_.logit_bias.empty();
}

SlotState Sequence::slot_state() const {
  SlotState state;
  state.settings = sampling_;
  if (!uses_history(sampling_)) return state;
  state.prompt.assign(prompt_ids().begin(), prompt_ids().end());
  state.generated.assign(generated_ids().begin(), generated_ids().end());
  return state;
}

std::vector<TokenId> Sequence::ending_ids() const {
  auto ids = ending_.stop_ids;
  const auto ends = tokenizer_.end_tokens();
  if (!ending_.ignore_end_tokens) ids.insert(ids.end(), ends.begin(), ends.end());
  return ids;
}

bool Sequence::ends_with(TokenId id) const {
  const auto& own = ending_.stop_ids;
  if (std::find(own.begin(), own.end(), id) != own.end()) return true;
  const auto ends = tokenizer_.end_tokens();
  return !ending_.ignore_end_tokens && std::find(ends.begin(), ends.end(), id) != ends.end();
}

std::string Sequence::accept(TokenId id) {
  tokens_.push_back(id);
  std::string text;
  if (ends_with(id)) {
    stop_id_ = id;
    finish(FinishReason::stop);
  } else if (!tokenizer_.is_control(id)) {
    text = stops_.push(decoder_.push(tokenizer_.bytes(id)));
    if (stops_.match() != nullptr) finish(FinishReason::stop);
  }
  if (generated() >= ending_.max_tokens) finish(FinishReason::length);
  return text;
}

void Sequence::finish(FinishReason reason) {
  if (!finish_reason_) finish_reason_ = reason;
}

std::string Sequence::flush() {
  if (stops_.match() != nullptr) return {};
  auto text = stops_.push(decoder_.finish());
  if (stops_.match() != nullptr) return text;
  return text + stops_.finish();
}

}  // namespace inferno
