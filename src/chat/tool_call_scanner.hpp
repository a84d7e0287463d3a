#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "chat/json_progress.hpp"

namespace inferno {

/// Reads the JSON of one tool call, {"name": "f", "arguments": {…}}, as it comes in, byte by byte: the name
/// as soon as it is whole, the arguments' text piece by piece. Whole arguments are JSON, also those that are
/// written as a string.
class ToolCallScanner {
 public:
  /// Takes bytes until the JSON is whole or turns out to be none; returns how many.
  std::size_t push(std::string_view text);

  /// The closing brace was read, and there was a name.
  bool is_whole() const { return state_ == State::whole; }
  bool is_broken() const { return state_ == State::broken; }
  bool has_name() const { return has_name_; }
  const std::string& name() const { return name_; }
  /// Arguments' text that has come since this was called last; nothing before the name is known.
  std::string take_arguments();
  /// Everything that was pushed.
  const std::string& text() const { return text_; }

 private:
  enum class State : unsigned char {
    before,
    key_or_end,
    key,
    colon,
    value_begin,
    value,
    after_value,
    whole,
    broken
  };

  State next(char c);
  State next_in_value(char c);
  void end_value();
  void end_of_text();

  State state_ = State::before;
  std::string text_;
  std::string key_;
  std::string value_;  ///< raw text of the value that is being read
  JsonProgress progress_;
  bool escaped_ = false;
  bool arguments_are_raw_ = false;  ///< they are no string, so that pieces can be passed on
  std::string name_;
  bool has_name_ = false;
  std::string arguments_;  ///< not yet taken
  bool has_arguments_ = false;
};

}  // namespace inferno
