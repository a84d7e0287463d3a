#include "grammar/number_bounds.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

#include "grammar/grammar.hpp"
#include "grammar/schema_keywords.hpp"

namespace inferno::grammar {
namespace {

/// Whether a reader compares doubles with a bound; integers are exact for every reader.
bool compares_doubles(const NumberBounds& found, const Json& keyword) {
  return !found.integer || keyword.text.find_first_of(".eE") != std::string::npos;
}

/// The next number that a reader with doubles can tell from this one, in units of the last digit that is
/// written: rounded away from it. What lies between is equal to it for such a reader.
Int128 next_double(const Json& keyword, bool upwards) {
  const auto bound = std::strtod(keyword.text.c_str(), nullptr);
  const auto next = std::nextafter(bound, upwards ? HUGE_VAL : -HUGE_VAL);
  // All digits of a double: as many as the smallest has behind the point, and some before it.
  std::array<char, 1500> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), next, std::chars_format::fixed, 1074);
  const Decimal exact(std::string_view(digits.data(), static_cast<std::size_t>(end.ptr - digits.data())));
  const auto [floor, whole] = exact.scaled_floor(NumberMachine::kFractionDigits);
  return floor + (upwards && !whole ? 1 : 0);
}

// All that is written has at most kFractionDigits behind the point, so a bound between two such numbers is
// as good as the nearer one within.

void add_low(NumberBounds& found, const Json& keyword, bool exclusive) {
  found.keyword = &keyword;
  const auto number = keyword.number();
  if (number.at_least_power(NumberMachine::kIntegerDigits)) {
    // Below every number that is written, or above.
    if (number.is_negative()) return;
    throw SchemaError(keyword.path(),
                      fmt::format("expected a bound below 10^{}", NumberMachine::kIntegerDigits));
  }
  const auto [floor, exact] = number.scaled_floor(NumberMachine::kFractionDigits);
  auto low = floor + (exclusive || !exact ? 1 : 0);
  if (exclusive && compares_doubles(found, keyword)) low = std::max(low, next_double(keyword, true));
  found.bounds.low = std::max(found.bounds.low.value_or(low), low);
}

void add_high(NumberBounds& found, const Json& keyword, bool exclusive) {
  found.keyword = &keyword;
  const auto number = keyword.number();
  if (number.at_least_power(NumberMachine::kIntegerDigits)) {
    if (!number.is_negative()) return;
    throw SchemaError(keyword.path(),
                      fmt::format("expected a bound above -10^{}", NumberMachine::kIntegerDigits));
  }
  const auto [floor, exact] = number.scaled_floor(NumberMachine::kFractionDigits);
  auto high = floor - (exclusive && exact ? 1 : 0);
  if (exclusive && compares_doubles(found, keyword)) high = std::min(high, next_double(keyword, false));
  found.bounds.high = std::min(found.bounds.high.value_or(high), high);
}

void add_multiple(NumberBounds& found, const Json& keyword) {
  const auto number = keyword.number();
  const auto unit = number.scaled(NumberMachine::kFractionDigits);
  if (!unit || number.at_least_power(NumberMachine::kIntegerDigits)) {
    throw SchemaError(keyword.path(),
                      fmt::format("expected a number below 10^{} with at most {} digits behind the "
                                  "point",
                                  NumberMachine::kIntegerDigits, NumberMachine::kFractionDigits));
  }
  if (found.bounds.multiple_of && *found.bounds.multiple_of != *unit)
    throw SchemaError(keyword.path(), "two different multipleOf for one number are not supported");
  found.keyword = &keyword;
  found.bounds.multiple_of = *unit;
  found.bounds.fraction_digits = static_cast<int>(number.fraction_digits());
}

void add_range(NumberBounds& found, const Json& keyword, const IntegerRange& range) {
  found.keyword = &keyword;
  constexpr auto kUnit = [] {
    Int128 unit = 1;
    for (int i = 0; i < NumberMachine::kFractionDigits; ++i) unit *= 10;
    return unit;
  }();
  found.bounds.low = std::max(found.bounds.low.value_or(range.least * kUnit), range.least * kUnit);
  found.bounds.high = std::min(found.bounds.high.value_or(range.most * kUnit), range.most * kUnit);
}

}  // namespace

NumberBounds bounds_of(const SchemaList& members, bool integer) {
  NumberBounds found;
  found.integer = integer;
  for (const auto* member : members) {
    if (const auto* keyword = member->find("minimum"))
      add_low(found, *keyword, is_exclusive(*member, "exclusiveMinimum"));
    if (const auto* keyword = exclusive_bound(*member, "exclusiveMinimum")) add_low(found, *keyword, true);
    if (const auto* keyword = member->find("maximum"))
      add_high(found, *keyword, is_exclusive(*member, "exclusiveMaximum"));
    if (const auto* keyword = exclusive_bound(*member, "exclusiveMaximum")) add_high(found, *keyword, true);
    if (const auto range = integer_range(*member)) add_range(found, *member->find("format"), *range);
    if (const auto* keyword = member->find("multipleOf")) add_multiple(found, *keyword);
  }
  return found;
}

}  // namespace inferno::grammar
