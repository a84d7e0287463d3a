#include "server/api/think_tags.hpp"

#include <string_view>

#include "chat/output_parser.hpp"

namespace inferno::api {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kEnd = "</think>";

std::optional<TokenId> one_token(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.encode(text, true);
  // Put together of letters it would be several, or one that anybody can type.
  if (ids.size() != 1) return std::nullopt;
  return ids.front();
}

}  // namespace

ThinkTags::ThinkTags(const Tokenizer& tokenizer)
    : begin(one_token(tokenizer, "<think>")), end(one_token(tokenizer, kEnd)) {
  if (!begin || !end) begin = end = std::nullopt;
}

TagTokens::TagTokens(const Tokenizer& tokenizer) {
  for (const std::string_view tag : {"<think>", "</think>", "<tool_call>", "</tool_call>"}) {
    const auto id = one_token(tokenizer, tag);
    if (id) ids_.push_back(*id);
    complete_ = complete_ && id;
  }
}

Thoughts thoughts_after(const Prompt& prompt, const ThinkTags& tags) {
  if (ends_in_reasoning(prompt)) return Thoughts::begun;
  if (!tags.begin) return Thoughts::none;
  const auto spans = prompt.spans();
  if (spans.empty() || !spans.back().trusted) return Thoughts::allowed;
  const auto text = spans.back().text.substr(0, spans.back().text.find_last_not_of(kBlanks) + 1);
  return text.ends_with(kEnd) ? Thoughts::none : Thoughts::allowed;
}

ThoughtCounter::ThoughtCounter(const Tokenizer& tokenizer, const ThinkTags& tags, bool begun)
    : tokenizer_(tokenizer), tags_(tags), state_(begun ? State::within : State::before) {}

void ThoughtCounter::push(TokenId id) {
  if (state_ == State::before) {
    if (tokenizer_.bytes(id).find_first_not_of(kBlanks) == std::string_view::npos) return;
    state_ = State::after;
  }
  if (state_ == State::after && tags_.begin && id == *tags_.begin) state_ = State::within;
  if (state_ != State::within) return;
  ++count_;
  if (tags_.end && id == *tags_.end) state_ = State::after;
}

}  // namespace inferno::api
