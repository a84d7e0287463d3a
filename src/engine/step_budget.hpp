#pragma once

#include <array>
#include <cstdint>

namespace inferno {

/// How many prompt tokens may go with the decoding rows of a step, so that those who stream do not notice the
/// others' prompts. Learns from the steps that were run; has no influence on results, only on when they come.
class StepBudget {
 public:
  /// `step_tokens`: most tokens of a step. `stretch`: most that a step may last, in times of what its
  /// decoding rows alone need; 0: no limit.
  StepBudget(std::uint32_t step_tokens, double stretch) : step_tokens_(step_tokens), stretch_(stretch) {}

  std::uint32_t prompt_tokens(std::uint32_t decoding_rows) const;
  void observe(std::uint32_t decoding_rows, std::uint32_t prompt_tokens, double microseconds);

  /// Fewer prompt tokens are never taken, but for a step now and then that measures what the decoding rows
  /// cost: a promise to those who wait for their first token.
  static constexpr std::uint32_t kLeast = 4;

 private:
  /// A step that is mostly overhead says nothing about what a prompt token costs.
  static constexpr std::uint32_t kTellingTokens = 16;
  /// So many steps with prompts pass at most before the decoding rows are measured alone again.
  static constexpr std::uint32_t kMixedSteps = 64;

  static constexpr std::size_t kBuckets = 33;  // rows by powers of two
  std::uint32_t step_tokens_;
  double stretch_;
  std::array<double, kBuckets> decoding_ = {};  // us of a step of that many rows; 0: not known
  double prompt_token_ = 0;                     // us of a prompt token; 0: not known
  std::uint32_t mixed_ = 0;                     // steps with prompts since one without
};

}  // namespace inferno
