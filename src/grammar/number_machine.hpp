#pragma once

#include <cstdint>
#include <optional>

#include "grammar/decimal.hpp"

namespace inferno::grammar {

/// Where a number stands. Digits are counted, or (where bounds must be kept) remembered.
struct NumberState {
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  bool operator==(const NumberState&) const = default;
};

/// JSON's numbers within bounds, digit by digit: a digit is taken only if some number within the bounds
/// begins so. Numbers are short enough for any reader: see the constants.
class NumberMachine {
 public:
  static constexpr int kIntegerDigits = 18;   ///< of an integer
  static constexpr int kWholeDigits = 16;     ///< before the point
  static constexpr int kFractionDigits = 16;  ///< behind the point
  static constexpr int kExponentDigits = 2;   ///< only without bounds

  /// Bounds as multiples of 10^-kFractionDigits, both included.
  struct Bounds {
    std::optional<Int128> low;
    std::optional<Int128> high;
    std::optional<Int128> multiple_of;  ///< above 0
    int fraction_digits = kFractionDigits;
  };

  NumberMachine(bool integer, const Bounds& bounds);

  /// Whether any number fits.
  bool empty() const;
  static NumberState start() { return {}; }
  /// Nullopt: no number within the bounds goes on so.
  std::optional<NumberState> step(const NumberState& at, std::uint8_t byte) const;
  /// The number may end here.
  bool accepts(const NumberState& at) const;

 private:
  enum class Phase : std::uint8_t { start, minus, zero, whole, point, fraction, e, e_sign, exponent };
  struct Parts;

  std::optional<NumberState> step_free(Parts at, std::uint8_t byte) const;
  std::optional<NumberState> step_bounded(Parts at, std::uint8_t byte) const;
  bool can_complete(const Parts& at) const;
  bool some_within(Int128 first, Int128 last, bool negative) const;

  bool integer_;
  bool bounded_;
  int whole_digits_;
  int fraction_digits_;
  Int128 low_ = 0;
  Int128 high_ = 0;
  Int128 step_ = 1;  ///< values are its multiples
};

}  // namespace inferno::grammar
