#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "grammar/budget.hpp"
#include "grammar/code_point_set.hpp"
#include "grammar/pattern.hpp"

namespace inferno::grammar {

/// A deterministic automaton over code points in which every state leads to an accepted text: what has no
/// way to the end is a missing transition.
class PatternDfa {
 public:
  static constexpr std::uint32_t kDead = UINT32_MAX;
  static constexpr std::uint32_t kUnlimited = UINT32_MAX;
  enum class Match : std::uint8_t {
    whole,  ///< the pattern matches the text from one end to the other
    part    ///< the pattern matches somewhere in the text, as JSON Schema wants it
  };

  /// Throws PatternError if nothing matches, or if it needs more than kMaxDfaStates states or what is left of
  /// the budget.
  PatternDfa(const Pattern& pattern, Match match, Budget& budget);

  std::uint32_t start() const { return start_; }
  std::uint32_t next(std::uint32_t state, char32_t code_point) const {
    return next_[state * class_count_ + class_of(code_point)];
  }
  bool accepts(std::uint32_t state) const { return accepting_[state]; }
  /// The characters that some text goes on with.
  const CodePointSet& follow(std::uint32_t state) const { return follow_sets_[follow_[state]]; }
  /// The last character of those from `code_point` on that no state tells from it.
  char32_t last_alike(char32_t code_point) const;
  std::size_t size() const { return accepting_.size(); }
  /// Bytes, about.
  std::size_t memory() const;
  bool matches(std::u32string_view text) const;

  /// Lengths of texts may be bounded too: at least `least` and at most `most` characters. Throws PatternError
  /// if no text is left, or if finding out is too much work.
  void bound_lengths(std::uint32_t least, std::uint32_t most, Budget& budget);
  /// Whether a text that got to `state` with `length` characters can be completed within the bounds.
  bool can_end_within(std::uint32_t state, std::uint32_t length) const;
  /// Whether it is within the bounds now.
  bool length_fits(std::uint32_t length) const { return length >= least_ && length <= most_; }
  /// Every state has an end at most this many characters away.
  std::uint32_t farthest_end() const { return farthest_end_; }
  std::uint32_t least() const { return least_; }
  std::uint32_t most() const { return most_; }

 private:
  friend class Determinizer;
  friend class PatternProduct;

  PatternDfa() = default;
  std::uint32_t class_of(char32_t code_point) const;
  /// Removes the ways that lead nowhere.
  void prune();
  void measure(Budget& budget);
  void measure_lengths();

  std::vector<char32_t> interval_begins_;      ///< ascending, from 0
  std::vector<std::uint32_t> interval_class_;  ///< of each interval
  std::uint32_t class_count_ = 0;
  std::vector<std::uint32_t> next_;  ///< [states][classes]
  std::vector<bool> accepting_;
  std::vector<std::uint32_t> follow_;  ///< by state, an index of follow_sets_
  std::vector<CodePointSet> follow_sets_;
  std::vector<std::vector<std::uint32_t>> successors_;  ///< by state, each once
  std::vector<std::uint32_t> longest_;                  ///< characters to the end of the longest text
  std::uint32_t start_ = 0;
  std::uint32_t farthest_end_ = 0;

  std::uint32_t least_ = 0;
  std::uint32_t most_ = kUnlimited;
  std::size_t reach_words_ = 0;
  /// Bit n of row q: from q an accepted text ends after exactly n more characters. Empty if no table is
  /// needed.
  std::vector<std::uint64_t> reach_;
};

inline constexpr std::size_t kMaxDfaStates = 20'000;

}  // namespace inferno::grammar
