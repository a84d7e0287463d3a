#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_point_set.hpp"

namespace inferno::grammar {

/// What is wrong with a pattern, in one line; who knows the pattern's place makes a SchemaError of it.
class PatternError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// No text matches.
class EmptyPattern : public PatternError {
 public:
  using PatternError::PatternError;
};

/// One state of a nondeterministic automaton over code points.
struct PatternState {
  enum class Kind : std::uint8_t {
    split,     ///< goes on to `next` and (unless kNowhere) `other` without a character
    set,       ///< takes a character of `sets[set]`
    at_start,  ///< goes on only at the text's beginning
    at_end,    ///< goes on only at the text's end
    match
  };
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  Kind kind = Kind::match;
  std::uint32_t next = kNowhere;
  std::uint32_t other = kNowhere;
  std::uint32_t set = 0;
};

struct Pattern {
  std::vector<PatternState> states;
  std::vector<CodePointSet> sets;  ///< none twice
  std::uint32_t start = 0;
};

/// Reads ECMA-262's regular expressions (with the flag u) without look-around, word boundaries,
/// backreferences and property escapes, which are refused by name; so is what would have too many states.
/// Throws PatternError.
Pattern parse_pattern(std::string_view pattern);

inline constexpr std::size_t kMaxPatternStates = 20'000;
inline constexpr std::size_t kMaxPatternDepth = 200;

}  // namespace inferno::grammar
