#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "chat/json_progress.hpp"

namespace inferno {

/// Reads the JSON of one tool call, {"name": "f", "arguments": {…}}, as it comes in, byte by byte: the name
/// as soon as it is whole, the arguments' text piece by piece. Arguments are an object, or a string that
/// holds the text of one; a call that says nothing but its name has none, "{}". Other members are passed
/// over, but do not stand in for arguments: {"name": "f", "parameters": {…}} is no call.
class ToolCallScanner {
 public:
  /// Takes bytes until the JSON is whole or turns out to be none; returns how many.
  std::size_t push(std::string_view text);

  /// The closing brace was read, and there were a name and arguments.
  bool is_whole() const { return state_ == State::whole; }
  bool is_broken() const { return state_ == State::broken; }
  /// The name is known, and something of the arguments: until then nothing says that it is a call at all.
  bool has_begun() const { return has_name_ && (!arguments_.empty() || has_passed_on_); }
  const std::string& name() const { return name_; }
  /// Arguments' text that has come since this was called last; nothing before the name is known. Their last
  /// brace comes only when the call is whole: until then it may turn out to be none, and then nobody was
  /// given arguments that look as if they were all.
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
  State begin_value(char c);
  void end_value();
  State end_of_text();

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
  bool arguments_are_over_ = false;
  bool has_passed_on_ = false;  ///< some of them have been taken
  bool has_others_ = false;     ///< members that are neither
};

}  // namespace inferno
