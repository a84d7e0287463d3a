#include "grammar/number_machine.hpp"

#include <algorithm>
#include <numeric>

namespace inferno::grammar {
namespace {

constexpr Int128 power_of_ten(int exponent) {
  Int128 value = 1;
  for (int i = 0; i < exponent; ++i) value *= 10;
  return value;
}

constexpr Int128 kOne = power_of_ten(NumberMachine::kFractionDigits);

Int128 gcd(Int128 a, Int128 b) {
  while (b != 0) {
    const auto rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// Beyond every number that is written.
constexpr Int128 kHuge = power_of_ten(36);

Int128 lcm(Int128 a, Int128 b) {
  const auto other = b / gcd(a, b);
  return other > kHuge / a ? kHuge : a * other;
}

Int128 floor_multiple(Int128 value, Int128 step) {
  const auto rest = value % step;
  return value - rest - (rest < 0 ? step : 0);
}

}  // namespace

/// A state, unpacked. `whole` and `fraction` are the digits as numbers if bounds must be kept; `whole_count`
/// and `fraction_count` (of an exponent: its digits) count them.
struct NumberMachine::Parts {
  Phase phase = Phase::start;
  bool negative = false;
  std::uint64_t whole = 0;
  std::uint64_t fraction = 0;
  std::uint8_t whole_count = 0;
  std::uint8_t fraction_count = 0;

  static Parts of(const NumberState& at) {
    return {.phase = static_cast<Phase>(at.b >> 60U),
            .negative = (at.a >> 63U) != 0,
            .whole = at.a & ((std::uint64_t{1} << 63U) - 1),
            .fraction = at.b & ((std::uint64_t{1} << 54U) - 1),
            .whole_count = 0,
            .fraction_count = static_cast<std::uint8_t>(at.b >> 54U & 0x3FU)};
  }
  NumberState packed() const {
    return {.a = whole | (negative ? std::uint64_t{1} << 63U : 0),
            .b = fraction | std::uint64_t{fraction_count} << 54U | static_cast<std::uint64_t>(phase) << 60U};
  }
};

NumberMachine::NumberMachine(bool integer, const Bounds& bounds)
    : integer_(integer),
      bounded_(bounds.low || bounds.high || bounds.multiple_of),
      whole_digits_(integer ? kIntegerDigits : kWholeDigits),
      fraction_digits_(integer ? 0 : std::min(kFractionDigits, bounds.fraction_digits)),
      low_(std::max(bounds.low.value_or(-kHuge), 1 - power_of_ten(whole_digits_) * kOne)),
      high_(std::min(bounds.high.value_or(kHuge), power_of_ten(whole_digits_) * kOne - 1)),
      step_(lcm(power_of_ten(kFractionDigits - fraction_digits_), bounds.multiple_of.value_or(1))) {}

bool NumberMachine::empty() const {
  return floor_multiple(high_, step_) < low_;
}

std::optional<NumberState> NumberMachine::step(const NumberState& at, std::uint8_t byte) const {
  const auto parts = Parts::of(at);
  return bounded_ ? step_bounded(parts, byte) : step_free(parts, byte);
}

bool NumberMachine::accepts(const NumberState& at) const {
  const auto parts = Parts::of(at);
  switch (parts.phase) {
    case Phase::zero:
    case Phase::whole:
    case Phase::fraction: {
      if (!bounded_) return true;
      const auto value = Int128{parts.whole} * kOne +
                         Int128{parts.fraction} * power_of_ten(kFractionDigits - parts.fraction_count);
      return some_within(value, value, parts.negative);
    }
    case Phase::exponent:
      return true;
    default:
      return false;
  }
}

/// Only counts: equal states are equal in all that may follow.
std::optional<NumberState> NumberMachine::step_free(Parts at, std::uint8_t byte) const {
  const bool digit = byte >= '0' && byte <= '9';
  const auto go = [&](Phase phase) {
    at.phase = phase;
    return at.packed();
  };
  switch (at.phase) {
    case Phase::start:
      if (byte == '-') return go(Phase::minus);
      [[fallthrough]];
    case Phase::minus:
      // An integer is never -0, which some readers make a fraction of.
      if (byte == '0' && (at.phase == Phase::start || !integer_)) return go(Phase::zero);
      if (!digit || byte == '0') return std::nullopt;
      at.whole = 1;
      return go(Phase::whole);
    case Phase::whole:
      if (digit) {
        if (at.whole >= static_cast<std::uint64_t>(whole_digits_)) return std::nullopt;
        ++at.whole;
        return go(Phase::whole);
      }
      [[fallthrough]];
    case Phase::zero:
      if (integer_) return std::nullopt;
      at.whole = 0;
      if (byte == '.') return go(Phase::point);
      if (byte == 'e' || byte == 'E') return go(Phase::e);
      return std::nullopt;
    case Phase::point:
    case Phase::fraction:
      if (digit && at.fraction_count < fraction_digits_) {
        ++at.fraction_count;
        return go(Phase::fraction);
      }
      if (at.phase == Phase::fraction && (byte == 'e' || byte == 'E')) {
        at.fraction_count = 0;
        return go(Phase::e);
      }
      return std::nullopt;
    case Phase::e:
      if (byte == '+' || byte == '-') return go(Phase::e_sign);
      [[fallthrough]];
    case Phase::e_sign:
    case Phase::exponent:
      if (!digit || at.fraction_count >= kExponentDigits) return std::nullopt;
      ++at.fraction_count;
      return go(Phase::exponent);
  }
  return std::nullopt;
}

std::optional<NumberState> NumberMachine::step_bounded(Parts at, std::uint8_t byte) const {
  const bool digit = byte >= '0' && byte <= '9';
  const auto value = static_cast<std::uint64_t>(byte - '0');
  switch (at.phase) {
    case Phase::start:
      if (byte == '-') {
        at.negative = true;
        at.phase = Phase::minus;
        break;
      }
      [[fallthrough]];
    case Phase::minus:
      if (!digit || (byte == '0' && at.phase == Phase::minus && integer_)) return std::nullopt;
      at.whole = value;
      at.phase = byte == '0' ? Phase::zero : Phase::whole;
      break;
    case Phase::whole:
      if (digit) {
        if (Int128{at.whole} * 10 >= power_of_ten(whole_digits_)) return std::nullopt;
        at.whole = at.whole * 10 + value;
        break;
      }
      [[fallthrough]];
    case Phase::zero:
      if (byte != '.' || fraction_digits_ == 0) return std::nullopt;
      at.phase = Phase::point;
      break;
    case Phase::point:
    case Phase::fraction:
      if (!digit || at.fraction_count >= fraction_digits_) return std::nullopt;
      at.fraction = at.fraction * 10 + value;
      ++at.fraction_count;
      at.phase = Phase::fraction;
      break;
    default:
      return std::nullopt;
  }
  if (!can_complete(at)) return std::nullopt;
  return at.packed();
}

/// Whether a number within the bounds begins so. What can follow a beginning is an interval for each number
/// of further digits before the point.
bool NumberMachine::can_complete(const Parts& at) const {
  switch (at.phase) {
    case Phase::minus:
      return some_within(integer_ ? kOne : 0, power_of_ten(whole_digits_) * kOne - 1, true);
    case Phase::zero:
    case Phase::point:
      return some_within(Int128{at.whole} * kOne, Int128{at.whole} * kOne + kOne - 1, at.negative);
    case Phase::fraction: {
      const auto unit = power_of_ten(kFractionDigits - at.fraction_count);
      const auto first = Int128{at.whole} * kOne + Int128{at.fraction} * unit;
      return some_within(first, first + unit - 1, at.negative);
    }
    case Phase::whole:
      break;
    default:
      return false;
  }
  for (Int128 unit = 1; Int128{at.whole} * unit < power_of_ten(whole_digits_); unit *= 10) {
    const auto first = Int128{at.whole} * unit * kOne;
    if (some_within(first, first + unit * kOne - 1, at.negative)) return true;
  }
  return false;
}

/// Whether a value whose magnitude lies from `first` to `last` is within the bounds.
bool NumberMachine::some_within(Int128 first, Int128 last, bool negative) const {
  const auto low = std::max(low_, negative ? -last : first);
  const auto high = std::min(high_, negative ? -first : last);
  return low <= high && floor_multiple(high, step_) >= low;
}

}  // namespace inferno::grammar
