#include "grammar/pattern_product.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/pattern.hpp"

namespace inferno::grammar {

/// Two automata at once.
class PatternProduct {
 public:
  PatternProduct(const PatternDfa& a, const PatternDfa& b, bool wants_b, Budget& budget)
      : a_(a), b_(b), wants_b_(wants_b), budget_(budget) {}

  PatternDfa run() {
    partition();
    out_.start_ = state_of(a_.start_, b_.start_);
    for (std::size_t at = 0; at < pairs_.size(); ++at) {
      budget_.spend(1 + classes_.size());
      const auto [a, b] = pairs_[at];
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        const auto next_a = a_.next_[a * a_.class_count_ + classes_[c].first];
        const auto next_b = b == PatternDfa::kDead ? b : b_.next_[b * b_.class_count_ + classes_[c].second];
        if (next_a == PatternDfa::kDead || (wants_b_ && next_b == PatternDfa::kDead)) continue;
        const auto next = state_of(next_a, next_b);
        out_.next_[at * classes_.size() + c] = next;
      }
    }
    budget_.spend(out_.next_.size());
    out_.prune();
    out_.measure(budget_);
    return std::move(out_);
  }

 private:
  /// Code points that neither automaton tells apart.
  void partition() {
    auto begins = a_.interval_begins_;
    begins.insert(begins.end(), b_.interval_begins_.begin(), b_.interval_begins_.end());
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    budget_.spend(begins.size());
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;
    for (const auto begin : begins) {
      const std::pair pair{a_.class_of(begin), b_.class_of(begin)};
      const auto [entry, is_new] = known.emplace(pair, static_cast<std::uint32_t>(classes_.size()));
      if (is_new) classes_.push_back(pair);
      out_.interval_class_.push_back(entry->second);
    }
    out_.interval_begins_ = std::move(begins);
    out_.class_count_ = static_cast<std::uint32_t>(classes_.size());
  }

  std::uint32_t state_of(std::uint32_t a, std::uint32_t b) {
    const auto [entry, is_new] =
        known_.emplace(std::uint64_t{a} << 32U | b, static_cast<std::uint32_t>(pairs_.size()));
    if (!is_new) return entry->second;
    if (pairs_.size() >= kMaxDfaStates) {
      throw PatternError(fmt::format("the patterns together need more than {} states; expected simpler ones",
                                     kMaxDfaStates));
    }
    budget_.spend(10 + classes_.size());
    pairs_.emplace_back(a, b);
    const bool accepted_by_b = b != PatternDfa::kDead && b_.accepting_[b];
    out_.accepting_.push_back(a_.accepting_[a] && accepted_by_b == wants_b_);
    out_.next_.resize(out_.next_.size() + classes_.size(), PatternDfa::kDead);
    return entry->second;
  }

  const PatternDfa& a_;
  const PatternDfa& b_;
  bool wants_b_;
  Budget& budget_;
  PatternDfa out_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> classes_;  ///< of each automaton
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_;    ///< of states; kDead: `b` has failed
  std::unordered_map<std::uint64_t, std::uint32_t> known_;
};

PatternDfa intersection(const PatternDfa& a, const PatternDfa& b, Budget& budget) {
  return PatternProduct(a, b, true, budget).run();
}

PatternDfa difference(const PatternDfa& a, const PatternDfa& b, Budget& budget) {
  return PatternProduct(a, b, false, budget).run();
}

namespace {

constexpr std::size_t kMostLookAheads = 16;

/// Goes over a pattern without being led astray by escapes and classes.
class PatternScan {
 public:
  explicit PatternScan(std::string_view text) : text_(text) {}

  /// Where the group that begins at `begin` ends, behind its parenthesis; npos if it does not.
  std::size_t group_end(std::size_t begin) {
    int open = 0;
    for (auto i = begin; i < text_.size(); i = after(i)) {
      if (text_[i] == '(') ++open;
      if (text_[i] == ')' && --open == 0) return i + 1;
    }
    return std::string_view::npos;
  }

  /// Whether there are alternatives outside of all groups.
  bool has_alternatives(std::size_t begin) {
    int open = 0;
    for (auto i = begin; i < text_.size(); i = after(i)) {
      if (text_[i] == '(') ++open;
      if (text_[i] == ')') --open;
      if (text_[i] == '|' && open == 0) return true;
    }
    return false;
  }

 private:
  /// The next character that is not escaped and not in a class.
  std::size_t after(std::size_t i) const {
    if (text_[i] == '\\') return i + 2;
    if (text_[i] != '[') return i + 1;
    for (++i; i < text_.size() && text_[i] != ']'; ++i) {
      if (text_[i] == '\\') ++i;
    }
    return i + 1;
  }

  std::string_view text_;
};

struct LookAhead {
  std::string pattern = "^(?:";  ///< anchored at the beginning
  bool negative = false;
};

/// Takes look-ahead away from the beginning of a pattern, if that is where all alternatives begin.
std::vector<LookAhead> take_look_ahead(std::string& pattern) {
  std::vector<LookAhead> found;
  PatternScan scan(pattern);
  std::size_t at = 1;
  while (pattern.starts_with('^') &&
         (pattern.compare(at, 3, "(?=") == 0 || pattern.compare(at, 3, "(?!") == 0)) {
    const auto end = scan.group_end(at);
    if (end == std::string::npos || found.size() >= kMostLookAheads) return {};
    LookAhead ahead{.negative = pattern[at + 2] == '!'};
    ahead.pattern.append(pattern, at + 3, end - at - 4).append(")");
    found.push_back(std::move(ahead));
    at = end;
  }
  if (found.empty() || scan.has_alternatives(at)) return {};
  // A group that repeats is no such look-ahead, and left to be refused.
  if (at < pattern.size() && std::string_view("*+?{").find(pattern[at]) != std::string_view::npos) return {};
  pattern.erase(1, at - 1);
  return found;
}

}  // namespace

PatternDfa schema_pattern(std::string_view pattern, Budget& budget) {
  using Match = PatternDfa::Match;
  budget.spend(pattern.size());
  std::string rest(pattern);
  const auto conditions = take_look_ahead(rest);
  PatternDfa dfa(parse_pattern(rest), Match::part, budget);
  for (const auto& condition : conditions) {
    const PatternDfa ahead(parse_pattern(condition.pattern), Match::part, budget);
    dfa = condition.negative ? difference(dfa, ahead, budget) : intersection(dfa, ahead, budget);
  }
  return dfa;
}

}  // namespace inferno::grammar
