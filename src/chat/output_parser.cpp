#include "chat/output_parser.hpp"

#include <algorithm>
#include <utility>

namespace inferno {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kBlanks = " \t\r\n";

/// Where the longest end of `text` begins that could be the beginning of `tag`.
std::size_t partial_tag(std::string_view text, std::string_view tag) {
  if (tag.empty()) return text.size();
  const auto most = std::min(text.size(), tag.size() - 1);
  for (auto size = most; size > 0; --size) {
    if (text.substr(text.size() - size) == tag.substr(0, size)) return text.size() - size;
  }
  return text.size();
}

/// Where the blanks begin that end `text`.
std::size_t trailing_blanks(std::string_view text) {
  const auto last = text.find_last_not_of(kBlanks);
  return last == std::string_view::npos ? 0 : last + 1;
}

bool could_be(std::string_view text, std::string_view tag) {
  return text.size() < tag.size() && tag.substr(0, text.size()) == text;
}

}  // namespace

bool ends_in_reasoning(const Prompt& prompt) {
  const auto spans = prompt.spans();
  if (spans.empty() || !spans.back().trusted) return false;
  const auto text = spans.back().text.substr(0, trailing_blanks(spans.back().text));
  return text.size() >= kThink.size() && text.substr(text.size() - kThink.size()) == kThink;
}

OutputParser::OutputParser(const OutputParserOptions& options)
    : options_(options),
      state_(!options.reasoning            ? State::content
             : options.begins_in_reasoning ? State::reasoning
                                           : State::beginning),
      skip_blanks_(state_ == State::reasoning) {}

OutputDelta OutputParser::push(std::string_view text) {
  OutputDelta delta;
  held_ += text;
  while (step(delta, false)) {
  }
  return delta;
}

OutputDelta OutputParser::finish(bool cut) {
  OutputDelta delta;
  if (cut) drop_partial_tag();
  while (step(delta, true)) {
  }
  return delta;
}

void OutputParser::drop_partial_tag() {
  std::string_view tag;
  if (state_ == State::beginning && could_be(held_.substr(std::min(held_.find('<'), held_.size())), kThink)) {
    tag = kThink;
  } else if (state_ == State::reasoning) {
    tag = kThinkEnd;
  } else if (options_.tool_calls && state_ != State::call) {
    tag = state_ == State::after_call ? kCallEnd : kCall;
  }
  const auto begin = partial_tag(held_, tag);
  if (held_.size() - begin >= 2) held_.resize(begin);
}

bool OutputParser::step(OutputDelta& delta, bool at_end) {
  if (held_.empty() && (state_ != State::call || !at_end)) return false;
  if (skip_blanks_) {
    drop_blanks();
    if (held_.empty() && state_ != State::call) return false;
  }
  switch (state_) {
    case State::beginning:
      return step_beginning(at_end);
    case State::reasoning:
      return step_reasoning(delta, at_end);
    case State::content:
      return step_content(delta, at_end);
    case State::call:
      return step_call(delta, at_end);
    case State::after_call:
      return step_after_call(delta, at_end);
  }
  return false;
}

void OutputParser::drop_blanks() {
  held_.erase(0, std::min(held_.find_first_not_of(kBlanks), held_.size()));
  if (!held_.empty()) skip_blanks_ = false;
}

bool OutputParser::step_beginning(bool at_end) {
  const auto first = std::min(held_.find_first_not_of(kBlanks), held_.size());
  const auto rest = std::string_view(held_).substr(first);
  if (rest.substr(0, kThink.size()) == kThink) {
    held_.erase(0, first + kThink.size());
    state_ = State::reasoning;
    skip_blanks_ = true;
    return true;
  }
  if (!at_end && could_be(rest, kThink)) return false;
  state_ = State::content;
  return true;
}

bool OutputParser::step_reasoning(OutputDelta& delta, bool at_end) {
  const auto tag = held_.find(kThinkEnd);
  if (tag != std::string::npos) {
    delta.reasoning += held_.substr(0, trailing_blanks(std::string_view(held_).substr(0, tag)));
    held_.erase(0, tag + kThinkEnd.size());
    state_ = State::content;
    skip_blanks_ = true;
    return true;
  }
  const auto certain = at_end ? held_.size() : partial_tag(held_, kThinkEnd);
  const auto size = trailing_blanks(std::string_view(held_).substr(0, certain));
  delta.reasoning += held_.substr(0, size);
  held_.erase(0, at_end ? held_.size() : size);
  return false;
}

bool OutputParser::step_content(OutputDelta& delta, bool at_end) {
  if (!options_.tool_calls) {
    delta.content += std::exchange(held_, {});
    return false;
  }
  const auto tag = held_.find(kCall);
  if (tag != std::string::npos) {
    const auto size = trailing_blanks(std::string_view(held_).substr(0, tag));
    delta.content += held_.substr(0, size);
    blanks_before_ = held_.substr(size, tag - size);
    held_.erase(0, tag + kCall.size());
    state_ = State::call;
    scanner_ = ToolCallScanner();
    call_began_ = false;
    return true;
  }
  // Blanks may turn out to stand before a call.
  auto size = held_.size();
  if (!at_end) size = trailing_blanks(std::string_view(held_).substr(0, partial_tag(held_, kCall)));
  if (at_end && has_whole_call_) size = trailing_blanks(held_);
  delta.content += held_.substr(0, size);
  held_.erase(0, at_end ? held_.size() : size);
  return false;
}

void OutputParser::report_call(OutputDelta& delta, bool ends) {
  ToolCallDelta call;
  if (scanner_.has_name() && !call_began_) {
    call.begins = true;
    call.name = scanner_.name();
    call_began_ = true;
    ++calls_;
  }
  if (!call_began_) return;
  call.index = calls_ - 1;
  call.arguments = scanner_.take_arguments();
  call.ends = ends;
  if (call.begins || call.ends || !call.arguments.empty()) delta.calls.push_back(std::move(call));
}

bool OutputParser::step_call(OutputDelta& delta, bool at_end) {
  // A closing tag can only stand where the JSON is over or is none: within strings it is text.
  const auto taken = scanner_.push(held_);
  held_.erase(0, taken);
  if (scanner_.is_whole() || scanner_.is_broken()) {
    report_call(delta, scanner_.is_whole());
    state_ = State::after_call;
    has_whole_call_ = has_whole_call_ || scanner_.is_whole();
    // What broke the JSON may be the closing tag's beginning.
    if (scanner_.is_broken()) held_.insert(0, 1, scanner_.text().back());
    return true;
  }
  report_call(delta, false);
  if (!at_end) return false;
  // Cut off. What has no name yet is dropped: it is part of a call, not of the answer.
  state_ = State::content;
  return false;
}

bool OutputParser::step_after_call(OutputDelta& delta, bool at_end) {
  if (scanner_.is_whole()) {
    const auto first = std::min(held_.find_first_not_of(kBlanks), held_.size());
    const auto rest = std::string_view(held_).substr(first);
    if (could_be(rest, kCallEnd)) {
      // Cut off within the tag, if no more comes: the call is whole all the same.
      if (at_end) held_.clear();
      return false;
    }
    // A model that forgets the tag goes on with its answer.
    held_.erase(0, first + (rest.substr(0, kCallEnd.size()) == kCallEnd ? kCallEnd.size() : 0));
  } else {
    const auto tag = held_.find(kCallEnd);
    if (tag == std::string::npos && !at_end) return false;
    auto text = scanner_.text();
    text.pop_back();  // stands in held_, too
    text += held_.substr(0, tag);
    if (text.starts_with('\n')) text.erase(0, 1);
    if (tag != std::string::npos && text.ends_with('\n')) text.pop_back();
    delta.content += blanks_before_ + text;
    held_.erase(0, tag == std::string::npos ? held_.size() : tag + kCallEnd.size());
  }
  state_ = State::content;
  skip_blanks_ = scanner_.is_whole();
  return true;
}

}  // namespace inferno
