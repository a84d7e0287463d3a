#include "chat/tool_call_scanner.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace inferno {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool is_json_object(std::string_view text) {
  constexpr std::string_view kBlanks = " \n\r\t";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos || text[first] != '{') return false;
  JsonProgress progress;
  for (const char c : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first)) {
    if (!progress.push(c)) return false;
  }
  return progress.is_whole();
}

/// The string that a JSON literal stands for; false if it is none.
bool unquote(const std::string& literal, std::string& out) {
  const auto parsed = nlohmann::json::parse(literal, nullptr, false);
  if (!parsed.is_string()) return false;
  out = parsed.get<std::string>();
  return true;
}

}  // namespace

std::size_t ToolCallScanner::push(std::string_view text) {
  std::size_t taken = 0;
  while (taken < text.size() && state_ != State::whole && state_ != State::broken) {
    const char c = text[taken++];
    text_ += c;
    state_ = next(c);
  }
  return taken;
}

std::string ToolCallScanner::take_arguments() {
  if (!has_name_) return {};
  has_passed_on_ = has_passed_on_ || !arguments_.empty();
  if (is_whole() || !arguments_are_over_) return std::exchange(arguments_, {});
  auto rest = arguments_.substr(std::min(arguments_.rfind('}'), arguments_.size()));
  arguments_.resize(arguments_.size() - rest.size());
  return std::exchange(arguments_, std::move(rest));
}

ToolCallScanner::State ToolCallScanner::next(char c) {
  const bool outside = state_ != State::key && state_ != State::value;
  if (outside && is_blank(c)) return state_;
  switch (state_) {
    case State::before:
      return c == '{' ? State::key_or_end : State::broken;
    case State::key_or_end:
      if (c == '"') {
        key_ = '"';
        return State::key;
      }
      // An empty object, or a comma before the end, which models write now and then.
      return c == '}' ? end_of_text() : State::broken;
    case State::key:
      key_ += c;
      if (std::exchange(escaped_, false)) return state_;
      escaped_ = c == '\\';
      if (c != '"') return state_;
      return unquote(std::string(key_), key_) ? State::colon : State::broken;
    case State::colon:
      return c == ':' ? State::value_begin : State::broken;
    case State::value_begin:
      return begin_value(c);
    case State::value:
      return next_in_value(c);
    case State::after_value:
      if (c == ',') return State::key_or_end;
      return c == '}' ? end_of_text() : State::broken;
    default:
      return state_;
  }
}

ToolCallScanner::State ToolCallScanner::begin_value(char c) {
  const bool is_arguments = key_ == "arguments";
  // Said twice it would be unclear, and pieces have been passed on.
  if ((key_ == "name" && has_name_) || (is_arguments && has_arguments_)) return State::broken;
  if (is_arguments && c != '{' && c != '"') return State::broken;
  value_.clear();
  progress_ = JsonProgress();
  arguments_are_raw_ = is_arguments && c == '{';
  has_arguments_ = has_arguments_ || is_arguments;
  has_others_ = has_others_ || (!is_arguments && key_ != "name");
  return next_in_value(c);
}

ToolCallScanner::State ToolCallScanner::next_in_value(char c) {
  // A number ends before what follows it.
  if (progress_.is_whole() && (c == ',' || c == '}' || is_blank(c))) {
    end_value();
    if (state_ == State::broken) return state_;
    state_ = State::after_value;
    return is_blank(c) ? state_ : next(c);
  }
  if (!progress_.push(c)) return State::broken;
  value_ += c;
  if (arguments_are_raw_) arguments_ += c;
  if (progress_.may_go_on()) return State::value;
  end_value();
  return state_ == State::broken ? state_ : State::after_value;
}

void ToolCallScanner::end_value() {
  if (key_ == "name") {
    has_name_ = unquote(value_, name_) && !name_.empty();
    if (!has_name_) state_ = State::broken;
  } else if (key_ == "arguments") {
    arguments_are_over_ = true;
    if (arguments_are_raw_) return;
    std::string text;
    if (unquote(value_, text) && is_json_object(text)) {
      arguments_ += text;
    } else {
      state_ = State::broken;
    }
  }
}

ToolCallScanner::State ToolCallScanner::end_of_text() {
  if (!has_name_) return State::broken;
  if (has_arguments_) return State::whole;
  // What else it says may be the arguments under another name: to call without them would be to invent some.
  if (has_others_) return State::broken;
  arguments_ = "{}";
  return State::whole;
}

}  // namespace inferno
