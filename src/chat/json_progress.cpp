#include "chat/json_progress.hpp"

namespace inferno {
namespace {

/// Deepest nesting; models do not write deeper, and whoever reads it may be recursive.
constexpr std::size_t kMaxDepth = 200;

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

}  // namespace

bool JsonProgress::push(char c) {
  if (is_number()) {
    if (next_in_number(c)) return true;
    if (!is_whole_number() || open_.empty()) return false;
    state_ = State::end;
  }
  switch (state_) {
    case State::string:
    case State::escape:
    case State::hex:
      return next_in_string(c);
    case State::literal:
      if (c != literal_.front()) return false;
      literal_.remove_prefix(1);
      if (literal_.empty()) state_ = State::end;
      return true;
    default:
      break;
  }
  if (is_blank(c)) return may_go_on();
  switch (state_) {
    case State::first_item:
      return c == ']' ? next_behind(c) : begin_value(c);
    case State::value:
      return begin_value(c);
    case State::first_key:
      if (c == '}') return next_behind(c);
      [[fallthrough]];
    case State::key:
      if (c != '"') return false;
      state_ = State::string;
      in_key_ = true;
      return true;
    case State::colon:
      if (c != ':') return false;
      state_ = State::value;
      return true;
    default:
      return next_behind(c);
  }
}

bool JsonProgress::begin_value(char c) {
  switch (c) {
    case '{':
      return open('}', State::first_key);
    case '[':
      return open(']', State::first_item);
    case '"':
      state_ = State::string;
      in_key_ = false;
      return true;
    case 't':
      literal_ = "rue";
      break;
    case 'f':
      literal_ = "alse";
      break;
    case 'n':
      literal_ = "ull";
      break;
    case '-':
      state_ = State::minus;
      return true;
    default:
      if (!is_digit(c)) return false;
      state_ = c == '0' ? State::zero : State::integer;
      return true;
  }
  state_ = State::literal;
  return true;
}

bool JsonProgress::open(char closing, State inside) {
  if (open_.size() >= kMaxDepth) return false;
  open_ += closing;
  state_ = inside;
  return true;
}

bool JsonProgress::next_in_string(char c) {
  if (state_ == State::hex) {
    if (!is_hex(c)) return false;
    if (--digits_ == 0) state_ = State::string;
  } else if (state_ == State::escape) {
    if (std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos) return false;
    state_ = c == 'u' ? State::hex : State::string;
    digits_ = 4;
  } else if (c == '\\') {
    state_ = State::escape;
  } else if (c == '"') {
    state_ = in_key_ ? State::colon : State::end;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    return false;
  }
  return true;
}

/// False if `c` does not belong to the number any more; what was read may be a whole one.
bool JsonProgress::next_in_number(char c) {
  switch (state_) {
    case State::minus:
      if (!is_digit(c)) return false;
      state_ = c == '0' ? State::zero : State::integer;
      return true;
    case State::integer:
      if (is_digit(c)) return true;
      [[fallthrough]];
    case State::zero:
      if (c == '.') {
        state_ = State::point;
        return true;
      }
      break;
    case State::point:
    case State::fraction:
      if (is_digit(c)) {
        state_ = State::fraction;
        return true;
      }
      if (state_ == State::point) return false;
      break;
    case State::exponent:
      if (c == '+' || c == '-') {
        state_ = State::exponent_sign;
        return true;
      }
      [[fallthrough]];
    default:
      if (!is_digit(c)) return false;
      state_ = State::exponent_digits;
      return true;
  }
  if (c != 'e' && c != 'E') return false;
  state_ = State::exponent;
  return true;
}

/// Behind a value, or at the end of something empty.
bool JsonProgress::next_behind(char c) {
  if (open_.empty()) return false;
  if (c == open_.back()) {
    open_.pop_back();
    state_ = State::end;
    return true;
  }
  if (c != ',' || state_ != State::end) return false;
  state_ = open_.back() == '}' ? State::key : State::value;
  return true;
}

}  // namespace inferno
