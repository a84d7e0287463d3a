#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <inferno/sampling.hpp>

namespace inferno {

/// What a sequence has seen, as the penalties need it: which ids stand in the prompt, and how often each
/// was generated.
class TokenHistory {
 public:
  TokenHistory() = default;
  explicit TokenHistory(std::size_t vocab_size) : in_prompt_(vocab_size, 0), generated_(vocab_size, 0) {}
  void add_prompt(std::span<const std::int32_t> ids);
  void add_generated(std::int32_t id);
  bool in_prompt(std::int32_t id) const { return in_prompt_[static_cast<std::size_t>(id)] != 0; }
  std::uint32_t generated(std::int32_t id) const { return generated_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<std::uint8_t> in_prompt_;   // [V]
  std::vector<std::uint32_t> generated_;  // [V]
};

/// Throws UsageError naming the setting, its range and what was given (NaN and infinity included; a
/// logit_bias id outside [0, vocab_size)).
void check_settings(const SamplingSettings& settings, std::size_t vocab_size);

/// The chosen token, or why there is none.
struct Choice {
  std::int32_t id = -1;
  std::string error;  ///< empty if id is valid: "logit 17 is NaN", "every token is banned"
};

/// Lowest index of the largest value; a NaN anywhere is an error, never a winner; -0 equals +0.
Choice argmax(std::span<const float> logits);

/// Chooses the token at `position` (that of the chosen token in its sequence). A pure function of its
/// arguments: integer fixed-point probabilities and a counter-based generator keyed by (seed, position)
/// make it the same on every platform. `logits` [V] is read only. `allowed` is a bit set over ids
/// (bit i % 32 of word i / 32; empty: all allowed), for grammars.
Choice choose(std::span<const float> logits, const SamplingSettings& settings, const TokenHistory& history,
              std::uint32_t position, std::span<const std::uint32_t> allowed = {});

}  // namespace inferno
