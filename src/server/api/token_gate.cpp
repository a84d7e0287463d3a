#include "server/api/token_gate.hpp"

#include <algorithm>

namespace inferno::api {

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // no continuation
  }));
}

TokenGate::TokenGate(const Tokenizer& tokenizer, std::size_t first_offset)
    : tokenizer_(tokenizer), first_offset_(first_offset) {}

void TokenGate::push(TokenEvent event) {
  // Control tokens are markup, no text.
  const auto id = event.id;
  const auto place = tokenizer_.is_control(id) ? places_.place() : places_.push(tokenizer_.bytes(id));
  held_.push_back({{std::move(event), first_offset_ + place.characters}, place.bytes});
}

void TokenGate::release(std::size_t bytes, std::vector<PlacedToken>& ready) {
  released_ += bytes;
  while (!held_.empty() && held_.front().begin < released_) {
    ready.push_back(std::move(held_.front().token));
    held_.pop_front();
  }
}

void TokenGate::finish(const RequestOutcome& outcome, std::vector<PlacedToken>& ready) {
  release(outcome.text.size(), ready);
  if (outcome.stop_id && !held_.empty() && held_.back().token.event.id == *outcome.stop_id) held_.pop_back();
  if (outcome.stop_string) held_.clear();  // what is left belongs to it
  for (auto& held : held_) ready.push_back(std::move(held.token));
  held_.clear();
}

}  // namespace inferno::api
