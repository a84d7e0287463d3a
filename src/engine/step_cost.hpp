#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace inferno {

/// What a step is made of, as far as its duration goes. A token at position p attends to p + 1 positions.
struct StepLoad {
  std::uint32_t rows = 0;      ///< that decode: a token each
  std::uint64_t attended = 0;  ///< positions that they attend to, together
  std::uint32_t prompt_tokens = 0;
  std::uint64_t prompt_attended = 0;  ///< positions that the prompt tokens attend to, together

  void add_row(std::uint32_t position) {
    ++rows;
    attended += std::uint64_t{position} + 1;
  }
  void add_prompt(std::uint32_t first, std::uint32_t count) {
    prompt_tokens += count;
    prompt_attended += std::uint64_t{count} * (2 * std::uint64_t{first} + count + 1) / 2;
  }
};

/// Predicts how long a step lasts: so much in any case, for each token, and for each position attended to,
/// where prompts and decoding rows differ (the tokens of a prompt share what they read of the cache).
///
/// The four numbers are the non-negative ones that explain the latest steps best: least squares of the
/// relative error, older steps counting less and less. A step that lasted far longer or shorter than usual
/// counts as one at the edge of the usual, so an interruption by the system changes little, and a lasting
/// change is followed within some dozens of steps.
class StepCost {
 public:
  void observe(const StepLoad& load, double microseconds);
  /// Microseconds; 0 if nothing was observed.
  double predict(const StepLoad& load) const;
  double per_token() const { return cost_[kToken]; }                     ///< microseconds
  double per_prompt_position() const { return cost_[kPromptPosition]; }  ///< microseconds

 private:
  static constexpr std::size_t kStep = 0, kToken = 1, kPosition = 2, kPromptPosition = 3, kCosts = 4;
  using Vector = std::array<double, kCosts>;
  static Vector features(const StepLoad& load);
  void solve();

  Vector cost_ = {};
  // Sums over the steps, by weight: products of features, and features times microseconds.
  std::array<Vector, kCosts> products_ = {};
  Vector targets_ = {};
  double usual_error_ = 1;  // mean of the relative errors, without their signs
  double drift_ = 0;        // mean of the relative errors in terms of the most that count, with their signs
  bool known_ = false;
};

}  // namespace inferno
