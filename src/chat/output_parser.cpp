#include "chat/output_parser.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace inferno {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kThinkEnd = "</think>";
constexpr std::string_view kCall = "<tool_call>";
constexpr std::string_view kCallEnd = "</tool_call>";
constexpr std::string_view kBlanks = " \t\r\n";

/// Thoughts first, so that either half can be left out.
constexpr std::array kTags = {kThink, kThinkEnd, kCall, kCallEnd};

using Tags = std::span<const std::string_view>;

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
  return text.ends_with(kThink);
}

OutputParser::OutputParser(const OutputParserOptions& options) : options_(options) {
  if (!options.reasoning) return;
  state_ = State::beginning;
  if (options.begins_in_reasoning) enter_reasoning();
}

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

/// Those that are looked for.
Tags OutputParser::tags() const {
  const Tags all = kTags;
  switch (state_) {
    case State::beginning:
      return all.first(1);
    case State::reasoning:
      return all.first(2);
    case State::content: {
      if (is_plain_) return {};
      const std::size_t first = options_.reasoning && !options_.plain_content ? 0 : 2;
      const std::size_t last = options_.tool_calls ? 4 : 2;
      return all.subspan(first, last - first);
    }
    case State::after_call:
      return all.last(1);
    case State::call:
      break;
  }
  return {};
}

OutputParser::TagPlace OutputParser::find_tag() const {
  const std::string_view text = held_;
  for (auto begin = text.find('<'); begin < text.size(); begin = text.find('<', begin + 1)) {
    if (!may_begin(begin)) continue;
    const auto rest = text.substr(begin);
    for (const auto tag : tags()) {
      if (rest.starts_with(tag)) return {begin, tag};
      if (could_be(rest, tag)) return {begin, {}};
    }
  }
  return {text.size(), {}};
}

bool OutputParser::may_begin(std::size_t at) const {
  return !options_.tags_are_told || std::binary_search(told_.begin(), told_.end(), dropped_ + at);
}

void OutputParser::drop(std::size_t size) {
  held_.erase(0, size);
  dropped_ += size;
  // The last byte may come back (see give_up_call).
  while (!told_.empty() && told_.front() + 1 < dropped_) told_.pop_front();
}

void OutputParser::drop_blanks() {
  drop(std::min(held_.find_first_not_of(kBlanks), held_.size()));
}

void OutputParser::drop_partial_tag() {
  const auto place = find_tag();
  if (place.tag.empty() && held_.size() - place.begin >= 2) held_.resize(place.begin);
}

bool OutputParser::step(OutputDelta& delta, bool at_end) {
  if (held_.empty() && !at_end) return false;
  if (skip_blanks_) {
    drop_blanks();
    if (held_.empty()) return false;
    skip_blanks_ = false;
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
      return step_after_call(at_end);
  }
  return false;
}

void OutputParser::pass_on(std::string& out, std::string_view text) {
  const auto size = trailing_blanks(text);
  if (size > 0) (out += std::exchange(blanks_, {})) += text.substr(0, size);
  blanks_ += text.substr(size);
}

void OutputParser::enter_reasoning() {
  state_ = State::reasoning;
  blanks_.clear();
  skip_blanks_ = true;
  thoughts_anew_ = has_thoughts_;
}

void OutputParser::leave_reasoning() {
  state_ = State::content;
  blanks_ = std::exchange(blanks_before_, {});
  skip_blanks_ = true;
}

bool OutputParser::step_beginning(bool at_end) {
  const auto first = std::min(held_.find_first_not_of(kBlanks), held_.size());
  blanks_.append(held_, 0, first);
  drop(first);
  if (held_.starts_with(kThink) && may_begin(0)) {
    drop(kThink.size());
    enter_reasoning();
    return true;
  }
  // What follows blanks may be told with the next piece of text.
  if (!at_end && (held_.empty() || (could_be(held_, kThink) && may_begin(0)))) return false;
  state_ = State::content;
  return true;
}

bool OutputParser::step_reasoning(OutputDelta& delta, bool at_end) {
  const auto place = find_tag();
  const bool is_over = place.tag.empty() && at_end;
  std::string thoughts;
  pass_on(thoughts, std::string_view(held_).substr(0, is_over ? held_.size() : place.begin));
  if (!thoughts.empty()) {
    if (std::exchange(thoughts_anew_, false)) delta.reasoning += "\n\n";
    delta.reasoning += thoughts;
    has_thoughts_ = true;
  }
  drop(is_over ? held_.size() : place.begin + place.tag.size());
  if (place.tag == kThinkEnd) leave_reasoning();
  if (place.tag == kThink) skip_blanks_ = true;
  return !place.tag.empty();
}

bool OutputParser::step_content(OutputDelta& delta, bool at_end) {
  const auto begin = held_.find_first_not_of(kBlanks);
  is_plain_ = is_plain_ || (options_.plain_content && begin != std::string::npos && held_[begin] != '<');
  const auto place = find_tag();
  const bool is_over = place.tag.empty() && at_end;
  pass_on(delta.content, std::string_view(held_).substr(0, is_over ? held_.size() : place.begin));
  drop(is_over ? held_.size() : place.begin + place.tag.size());
  if (!place.tag.empty()) take_content_tag(place.tag);
  // Blanks may turn out to stand before a call; those behind one are left out.
  if (is_over && has_whole_call_) blanks_.clear();
  const bool may_call = options_.tool_calls && !is_plain_;
  if (state_ == State::content && (is_over || !may_call)) delta.content += std::exchange(blanks_, {});
  return !place.tag.empty();
}

void OutputParser::take_content_tag(std::string_view tag) {
  if (tag == kThink) {
    blanks_before_ = std::exchange(blanks_, {});
    enter_reasoning();
  } else if (tag == kCall) {
    state_ = State::call;
    blanks_before_ = std::exchange(blanks_, {});
    scanner_ = ToolCallScanner();
    call_began_ = false;
    in_broken_call_ = false;
  } else if (tag == kCallEnd && std::exchange(in_broken_call_, false) && blanks_.ends_with('\n')) {
    blanks_.pop_back();
  }
}

void OutputParser::report_call(OutputDelta& delta, bool ends) {
  ToolCallDelta call;
  if (scanner_.has_begun() && !call_began_) {
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
  drop(taken);
  report_call(delta, scanner_.is_whole());
  if (scanner_.is_whole()) {
    state_ = State::after_call;
    has_whole_call_ = true;
    return true;
  }
  if (scanner_.is_broken()) {
    give_up_call(delta);
    return true;
  }
  // Cut off: what has not begun yet is dropped, too. It is part of a call, not of the answer.
  if (at_end) {
    state_ = State::content;
    ended_in_call_ = true;
  }
  return false;
}

void OutputParser::give_up_call(OutputDelta& delta) {
  auto text = scanner_.text();
  // What broke the JSON may be a tag's beginning.
  held_.insert(0, 1, text.back());
  --dropped_;
  text.pop_back();
  if (text.starts_with('\n')) text.erase(0, 1);
  blanks_ = std::exchange(blanks_before_, {});
  pass_on(delta.content, text);
  state_ = State::content;
  in_broken_call_ = true;
  has_false_call_ = has_false_call_ || call_began_;
}

bool OutputParser::step_after_call(bool at_end) {
  drop_blanks();
  if (held_.empty() || (could_be(held_, kCallEnd) && may_begin(0))) {
    // Cut off within the tag, if no more comes: the call is whole all the same.
    if (at_end) drop(held_.size());
    return false;
  }
  // A model that forgets the tag goes on with its answer.
  if (held_.starts_with(kCallEnd) && may_begin(0)) drop(kCallEnd.size());
  state_ = State::content;
  skip_blanks_ = true;
  return true;
}

}  // namespace inferno
