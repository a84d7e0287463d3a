#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace inferno {

/// Reads one JSON value byte by byte, as strictly as JSON is defined, and keeps nothing of it but what is
/// open.
class JsonProgress {
 public:
  /// Takes the next byte. False: no value goes on like this, and nothing more may be pushed.
  bool push(char c);
  /// What was read is a value.
  bool is_whole() const { return open_.empty() && (state_ == State::end || is_whole_number()); }
  /// More can belong to it. A number may be whole and go on.
  bool may_go_on() const { return !(open_.empty() && state_ == State::end); }

 private:
  enum class State : unsigned char {
    value,
    first_item,  ///< or "]"
    first_key,   ///< or "}"
    key,
    colon,
    string,
    escape,
    hex,
    literal,
    minus,
    zero,
    integer,
    point,
    fraction,
    exponent,
    exponent_sign,
    exponent_digits,
    end  ///< of a value; more may follow it in what is open
  };

  bool begin_value(char c);
  bool next_in_string(char c);
  bool next_in_number(char c);
  bool next_behind(char c);
  bool open(char closing, State inside);
  bool is_number() const { return state_ >= State::minus && state_ <= State::exponent_digits; }
  bool is_whole_number() const {
    return state_ == State::zero || state_ == State::integer || state_ == State::fraction ||
           state_ == State::exponent_digits;
  }

  State state_ = State::value;
  std::string open_;  ///< what closes the objects and arrays that are open
  bool in_key_ = false;
  unsigned digits_ = 0;       ///< of an escape, that are missing
  std::string_view literal_;  ///< what is missing of true, false, null
};

}  // namespace inferno
