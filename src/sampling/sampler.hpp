#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <inferno/sampling.hpp>

namespace inferno {

/// What a sequence has seen, as the penalties need it: which ids stand in the prompt, and how often each
/// was generated. One made without a vocabulary size has seen nothing and takes nothing in.
class TokenHistory {
 public:
  TokenHistory() = default;
  explicit TokenHistory(std::size_t vocab_size) : in_prompt_(vocab_size, 0), generated_(vocab_size, 0) {}

  /// Both throw UsageError if an id is outside [0, vocab_size).
  void add_prompt(std::span<const std::int32_t> ids);
  void add_generated(std::int32_t id);

  std::size_t vocab_size() const { return in_prompt_.size(); }
  bool in_prompt(std::int32_t id) const { return holds(id) && in_prompt_[static_cast<std::size_t>(id)] != 0; }
  std::uint32_t generated(std::int32_t id) const {
    return holds(id) ? generated_[static_cast<std::size_t>(id)] : 0;
  }
  /// Every id seen, once each, in the order of first sight: penalties touch these and no others.
  std::span<const std::int32_t> distinct() const { return distinct_; }

 private:
  bool holds(std::int32_t id) const { return id >= 0 && static_cast<std::size_t>(id) < in_prompt_.size(); }
  bool seen(std::int32_t id) const { return in_prompt(id) || generated(id) != 0; }
  void check(std::int32_t id) const;

  std::vector<std::uint8_t> in_prompt_;   // [V]
  std::vector<std::uint32_t> generated_;  // [V]
  std::vector<std::int32_t> distinct_;
};

/// Throws UsageError naming the setting, its range and what was given (NaN and infinity included; a
/// logit_bias id outside [0, vocab_size)).
void check_settings(const SamplingSettings& settings, std::size_t vocab_size);

/// Whether a sequence's history has a say in what is chosen: any penalty is on.
bool uses_history(const SamplingSettings& settings);

/// The chosen token, or why there is none.
struct Choice {
  std::int32_t id = -1;
  std::string error;  ///< empty if id is valid: "logit 17 is NaN", "every token is banned"
};

/// Lowest index of the largest value; a NaN anywhere is an error, never a winner; -0 equals +0; so is a
/// list that holds nothing above -infinity.
Choice argmax(std::span<const float> logits);

/// Steps 1 to 4 of the order that SamplingSettings documents, in place: bias and penalties, as the choice
/// sees them. Rounded float operations, in this order: `+ bias`; `* (1 / repetition_penalty)`, the
/// reciprocal rounded to float, if positive, else `* repetition_penalty`; `- presence`;
/// `- (frequency * count)`. Banned ids become -infinity.
void adjust_logits(std::span<float> logits, const SamplingSettings& settings, const TokenHistory& history);

/// Chooses the token at `position` (that of the chosen token in its sequence). A pure function of its
/// arguments: integer fixed-point probabilities (fixed_exp.hpp) and a counter-based generator keyed by
/// (seed, position) (philox.hpp) make it the same on every platform.
///
/// `logits` [V] is read only. `allowed` is a bit set over ids (bit i % 32 of word i / 32; empty: all
/// allowed), for grammars. What cannot be chosen from is reported in `Choice::error`: settings that
/// check_settings would refuse, a NaN (in a banned id too), nothing left to choose.
///
/// The draw: weights are 31-bit fixed point. top-p keeps the smallest set whose integer mass is at least
/// top_p times that of what top-k kept, rounded up, top_p itself counted in units of 2^-31; min-p keeps
/// weights of at least min_p in the same units. With M the mass of what is left, r the 64 bits from
/// Philox4x32-10 at counter (position, 0, 0, 0), key (seed's low word, seed's high word), words 1 (upper)
/// and 0 (lower), the chosen id is the one in whose stretch floor(r M / 2^64) falls when the weights are
/// laid end to end by ascending id.
Choice choose(std::span<const float> logits, const SamplingSettings& settings, const TokenHistory& history,
              std::uint32_t position, std::span<const std::uint32_t> allowed = {});

}  // namespace inferno
