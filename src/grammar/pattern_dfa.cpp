#include "grammar/pattern_dfa.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <map>
#include <set>
#include <utility>

namespace inferno::grammar {

/// The subset construction.
class Determinizer {
 public:
  Determinizer(const Pattern& pattern, PatternDfa::Match match, PatternDfa& dfa, Budget& budget)
      : pattern_(pattern), searches_(match == PatternDfa::Match::part), dfa_(dfa), budget_(budget) {}

  void run() {
    partition();
    seen_.assign(pattern_.states.size(), 0);
    Subset first;
    begin();
    close(pattern_.start, true, first);
    const bool empty_matches = reaches_match(first, true);
    const auto searching = static_cast<std::uint32_t>(pattern_.states.size());
    if (searches_) first.push_back(searching);
    // "$^" matches the empty text only: such a beginning is a state of its own.
    if (empty_matches && !reaches_match(first, false)) first.push_back(searching + 1);
    dfa_.start_ = state_of(std::move(first));
    if (empty_matches) dfa_.accepting_[dfa_.start_] = true;
    for (std::size_t at = 0; at < subsets_.size(); ++at) expand(at);
    dfa_.prune();
  }

 private:
  using Kind = PatternState::Kind;
  using Subset = std::vector<std::uint32_t>;

  void work(std::size_t steps) { budget_.spend(steps); }

  /// Cuts the code points into classes that no set of the pattern tells apart.
  void partition() {
    std::vector<char32_t> begins{0};
    for (const auto& set : pattern_.sets) {
      work(set.ranges().size());
      for (const auto& range : set.ranges()) {
        begins.push_back(range.first);
        if (range.last < kLastCodePoint) begins.push_back(range.last + 1);
      }
    }
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    std::map<std::vector<std::uint32_t>, std::uint32_t> classes;
    classes_of_set_.resize(pattern_.sets.size());
    for (const auto begin : begins) {
      std::vector<std::uint32_t> members;
      work(pattern_.sets.size());
      for (std::uint32_t i = 0; i < pattern_.sets.size(); ++i) {
        if (pattern_.sets[i].contains(begin)) members.push_back(i);
      }
      const auto [known, is_new] = classes.emplace(members, static_cast<std::uint32_t>(classes.size()));
      if (is_new) {
        for (const auto i : members) classes_of_set_[i].push_back(known->second);
      }
      dfa_.interval_class_.push_back(known->second);
    }
    dfa_.interval_begins_ = std::move(begins);
    dfa_.class_count_ = static_cast<std::uint32_t>(classes.size());
  }

  /// A new set of states is being collected.
  void begin() { ++round_; }

  /// Adds what is reached from `from` without a character.
  void close(std::uint32_t from, bool at_start, Subset& out) {
    stack_.assign(1, from);
    while (!stack_.empty()) {
      const auto state = stack_.back();
      stack_.pop_back();
      if (state == PatternState::kNowhere || seen_[state] == round_) continue;
      seen_[state] = round_;
      work(1);
      const auto& here = pattern_.states[state];
      if (here.kind == Kind::split || (here.kind == Kind::at_start && at_start)) {
        stack_.push_back(here.other);
        stack_.push_back(here.next);
      } else if (here.kind != Kind::at_start) {
        out.push_back(state);
      }
    }
  }

  /// Whether a text that ends here is matched.
  bool reaches_match(const Subset& subset, bool at_start) {
    begin();
    stack_.assign(subset.begin(), subset.end());
    while (!stack_.empty()) {
      const auto state = stack_.back();
      stack_.pop_back();
      if (state >= pattern_.states.size() || seen_[state] == round_) continue;
      seen_[state] = round_;
      work(1);
      const auto& here = pattern_.states[state];
      if (here.kind == Kind::match) return true;
      if (here.kind == Kind::set || (here.kind == Kind::at_start && !at_start)) continue;
      stack_.push_back(here.other);
      stack_.push_back(here.next);
    }
    return false;
  }

  std::uint32_t state_of(Subset subset) {
    std::sort(subset.begin(), subset.end());
    if (searches_) {
      // Found: whatever follows.
      const auto found = std::find_if(subset.begin(), subset.end(), [&](std::uint32_t s) {
        return s < pattern_.states.size() && pattern_.states[s].kind == Kind::match;
      });
      if (found != subset.end()) subset.assign(1, *found);
    }
    work(subset.size());
    const auto [known, is_new] = known_.emplace(subset, static_cast<std::uint32_t>(subsets_.size()));
    if (is_new) {
      if (subsets_.size() >= kMaxDfaStates) {
        throw PatternError(
            fmt::format("the pattern needs more than {} states; expected a simpler one", kMaxDfaStates));
      }
      subsets_.push_back(&known->first);
      dfa_.accepting_.push_back(reaches_match(known->first, false));
      dfa_.next_.resize(dfa_.next_.size() + dfa_.class_count_, PatternDfa::kDead);
      work(dfa_.class_count_);
    }
    return known->second;
  }

  void expand(std::size_t at) {
    const auto& subset = *subsets_[at];
    std::vector<Subset> targets(dfa_.class_count_);
    work(dfa_.class_count_);
    bool searching = false;
    bool found = false;
    for (const auto state : subset) {
      if (state >= pattern_.states.size()) {
        searching = searching || state == pattern_.states.size();
        continue;
      }
      const auto& here = pattern_.states[state];
      if (here.kind == Kind::match) found = searches_;
      if (here.kind != Kind::set) continue;
      work(classes_of_set_[here.set].size());
      for (const auto c : classes_of_set_[here.set]) targets[c].push_back(here.next);
    }
    for (std::uint32_t c = 0; c < dfa_.class_count_; ++c) {
      auto next = PatternDfa::kDead;
      if (found) {
        next = static_cast<std::uint32_t>(at);
      } else if (searching || !targets[c].empty()) {
        Subset closed;
        begin();
        for (const auto state : targets[c]) close(state, false, closed);
        if (searching) {
          close(pattern_.start, false, closed);
          closed.push_back(static_cast<std::uint32_t>(pattern_.states.size()));
        }
        if (!closed.empty()) next = state_of(std::move(closed));
      }
      dfa_.next_[at * dfa_.class_count_ + c] = next;
    }
  }

  const Pattern& pattern_;
  bool searches_;
  PatternDfa& dfa_;
  Budget& budget_;
  std::vector<std::vector<std::uint32_t>> classes_of_set_;
  std::vector<std::uint64_t> seen_;
  std::uint64_t round_ = 0;
  std::vector<std::uint32_t> stack_;
  std::map<Subset, std::uint32_t> known_;
  std::vector<const Subset*> subsets_;
};

PatternDfa::PatternDfa(const Pattern& pattern, Match match, Budget& budget) {
  Determinizer(pattern, match, *this, budget).run();
  measure(budget);
}

void PatternDfa::prune() {
  const auto count = accepting_.size();
  std::vector<std::vector<std::uint32_t>> before(count);
  for (std::size_t i = 0; i < next_.size(); ++i) {
    if (next_[i] == kDead) continue;
    auto& list = before[next_[i]];
    const auto from = static_cast<std::uint32_t>(i / class_count_);
    if (list.empty() || list.back() != from) list.push_back(from);
  }
  std::vector<bool> alive = accepting_;
  std::vector<std::uint32_t> todo;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (alive[i]) todo.push_back(i);
  }
  while (!todo.empty()) {
    const auto state = todo.back();
    todo.pop_back();
    for (const auto from : before[state]) {
      if (alive[from]) continue;
      alive[from] = true;
      todo.push_back(from);
    }
  }
  for (auto& next : next_) {
    if (next != kDead && !alive[next]) next = kDead;
  }
  if (!alive[start_]) throw EmptyPattern("no text matches the pattern");
}

std::uint32_t PatternDfa::class_of(char32_t code_point) const {
  const auto after = std::upper_bound(interval_begins_.begin(), interval_begins_.end(), code_point);
  return interval_class_[static_cast<std::size_t>(after - interval_begins_.begin()) - 1];
}

char32_t PatternDfa::last_alike(char32_t code_point) const {
  const auto after = std::upper_bound(interval_begins_.begin(), interval_begins_.end(), code_point);
  return after == interval_begins_.end() ? kLastCodePoint : *after - 1;
}

std::size_t PatternDfa::memory() const {
  auto bytes = next_.size() * sizeof(std::uint32_t) + reach_.size() * sizeof(std::uint64_t) + size() * 64;
  for (const auto& set : follow_sets_) bytes += set.ranges().size() * sizeof(CodePointRange);
  for (const auto& successors : successors_) bytes += successors.size() * sizeof(std::uint32_t);
  return bytes;
}

bool PatternDfa::matches(std::u32string_view text) const {
  auto state = start_;
  for (const auto c : text) {
    state = next(state, c);
    if (state == kDead) return false;
  }
  return accepts(state) && length_fits(static_cast<std::uint32_t>(text.size()));
}

void PatternDfa::measure(Budget& budget) {
  budget.spend(next_.size());
  const auto count = accepting_.size();
  std::map<std::vector<bool>, std::uint32_t> known;
  for (std::uint32_t state = 0; state < count; ++state) {
    std::vector<bool> live(class_count_);
    std::vector<std::uint32_t> successors;
    for (std::uint32_t c = 0; c < class_count_; ++c) {
      const auto next = next_[state * class_count_ + c];
      live[c] = next != kDead;
      if (live[c]) successors.push_back(next);
    }
    std::sort(successors.begin(), successors.end());
    successors.erase(std::unique(successors.begin(), successors.end()), successors.end());
    successors_.push_back(std::move(successors));
    const auto [set, is_new] = known.emplace(live, static_cast<std::uint32_t>(known.size()));
    follow_.push_back(set->second);
    if (!is_new) continue;
    std::vector<CodePointRange> ranges;
    for (std::size_t i = 0; i < interval_begins_.size(); ++i) {
      if (!live[interval_class_[i]]) continue;
      const auto last = i + 1 < interval_begins_.size() ? interval_begins_[i + 1] - 1 : kLastCodePoint;
      ranges.push_back({interval_begins_[i], last});
    }
    follow_sets_.emplace_back(std::move(ranges));
  }
  measure_lengths();
}

void PatternDfa::measure_lengths() {
  const auto count = accepting_.size();
  // Lengths to the end, from the ends backwards: what is never finished lies before a cycle.
  std::vector<std::vector<std::uint32_t>> before(count);
  std::vector<std::uint32_t> open(count);
  std::vector<std::uint32_t> finished;
  for (std::uint32_t state = 0; state < count; ++state) {
    open[state] = static_cast<std::uint32_t>(successors_[state].size());
    for (const auto next : successors_[state]) before[next].push_back(state);
    if (open[state] == 0) finished.push_back(state);
  }
  std::vector<bool> reached = accepting_;
  std::vector<std::uint32_t> front;
  for (std::uint32_t state = 0; state < count; ++state) {
    if (reached[state]) front.push_back(state);
  }
  for (std::uint32_t distance = 0; !front.empty(); ++distance) {
    farthest_end_ = distance;
    std::vector<std::uint32_t> next_front;
    for (const auto state : front) {
      for (const auto from : before[state]) {
        if (reached[from]) continue;
        reached[from] = true;
        next_front.push_back(from);
      }
    }
    front = std::move(next_front);
  }

  longest_.assign(count, kUnlimited);
  for (const auto state : finished) longest_[state] = 0;
  while (!finished.empty()) {
    const auto state = finished.back();
    finished.pop_back();
    for (const auto from : before[state]) {
      if (--open[from] != 0) continue;
      longest_[from] = 0;
      for (const auto next : successors_[from]) longest_[from] = std::max(longest_[from], longest_[next] + 1);
      finished.push_back(from);
    }
  }
}

void PatternDfa::bound_lengths(std::uint32_t least, std::uint32_t most, Budget& budget) {
  least_ = least;
  most_ = most;
  if (longest_[start_] != kUnlimited) most_ = std::min(most_, longest_[start_]);
  if (most_ < least_) {
    throw PatternError(
        fmt::format("no text of that length matches the pattern (the longest has {} characters)", most_));
  }
  if (least == 0 && most == kUnlimited) return;
  if (most_ == kUnlimited) {
    // A text can always grow where a cycle lies ahead, and `longest_` says how far where none does; but not
    // by every number of characters, which nothing asks for without an upper bound.
    return;
  }
  const auto count = accepting_.size();
  reach_words_ = most_ / 64 + 1;
  std::size_t edges = 0;
  for (const auto& successors : successors_) edges += successors.size();
  budget.spend((edges + count) * (std::size_t{most_} + 1) / 4);
  // Row by row of length: n + 1 characters from q if some successor has n.
  reach_.assign(count * reach_words_, 0);
  for (std::uint32_t n = 0; n <= most_; ++n) {
    for (std::size_t state = 0; state < count; ++state) {
      bool here = n == 0 && accepting_[state];
      if (n > 0) {
        const auto m = n - 1;
        here = std::any_of(successors_[state].begin(), successors_[state].end(), [&](std::uint32_t next) {
          return (reach_[next * reach_words_ + m / 64] >> (m % 64) & 1U) != 0;
        });
      }
      if (here) reach_[state * reach_words_ + n / 64] |= std::uint64_t{1} << (n % 64);
    }
  }
  if (!can_end_within(start_, 0)) throw PatternError("no text of that length matches the pattern");
}

bool PatternDfa::can_end_within(std::uint32_t state, std::uint32_t length) const {
  if (reach_.empty()) {
    return longest_[state] == kUnlimited || length >= least_ || longest_[state] >= least_ - length;
  }
  if (length > most_) return false;
  const auto last = most_ - length;
  const auto first = length < least_ ? least_ - length : 0;
  for (auto word = first / 64; word <= last / 64; ++word) {
    auto bits = reach_[state * reach_words_ + word];
    if (word == first / 64) bits &= ~std::uint64_t{0} << (first % 64);
    if (word == last / 64 && last % 64 != 63) bits &= (std::uint64_t{1} << (last % 64 + 1)) - 1;
    if (bits != 0) return true;
  }
  return false;
}

}  // namespace inferno::grammar
