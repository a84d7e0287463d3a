#include "grammar/decimal.hpp"

#include <algorithm>

namespace inferno::grammar {
namespace {

/// Exponents are text from anyone; beyond this they are all alike.
constexpr std::int64_t kMaxExponent = 1'000'000'000;

std::int64_t parse_exponent(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  std::int64_t value = 0;
  for (const char c : text) value = std::min(kMaxExponent, value * 10 + (c - '0'));
  return negative ? -value : value;
}

}  // namespace

Decimal::Decimal(std::string_view json_number) {
  if (!json_number.empty() && json_number[0] == '-') {
    negative_ = true;
    json_number.remove_prefix(1);
  }
  const auto e = json_number.find_first_of("eE");
  if (e != std::string_view::npos) {
    exponent_ = parse_exponent(json_number.substr(e + 1));
    json_number = json_number.substr(0, e);
  }
  const auto point = json_number.find('.');
  digits_ = json_number.substr(0, point);
  if (point != std::string_view::npos) {
    digits_ += json_number.substr(point + 1);
    exponent_ -= static_cast<std::int64_t>(json_number.size() - point - 1);
  }
  const auto last = digits_.find_last_not_of('0');
  if (last == std::string::npos) {
    *this = Decimal();
    return;
  }
  exponent_ += static_cast<std::int64_t>(digits_.size() - last - 1);
  digits_.erase(last + 1);
  digits_.erase(0, digits_.find_first_not_of('0'));
}

std::optional<Int128> Decimal::scaled(int places) const {
  if (is_zero()) return Int128{0};
  const auto zeros = exponent_ + places;
  if (zeros < 0 || static_cast<std::int64_t>(digits_.size()) + zeros > 37) return std::nullopt;
  Int128 value = 0;
  for (const char c : digits_) value = value * 10 + (c - '0');
  for (std::int64_t i = 0; i < zeros; ++i) value *= 10;
  return negative_ ? -value : value;
}

std::pair<Int128, bool> Decimal::scaled_floor(int places) const {
  if (is_zero()) return {0, true};
  const auto length = static_cast<std::int64_t>(digits_.size());
  // How many digits stand before the point: maybe more, maybe fewer than there are.
  const auto whole = length + exponent_ + places;
  Int128 value = 0;
  for (std::int64_t i = 0; i < whole; ++i)
    value = value * 10 + (i < length ? digits_[static_cast<std::size_t>(i)] - '0' : 0);
  const bool exact = whole >= length;
  if (!negative_) return {value, exact};
  return {exact ? -value : -value - 1, exact};
}

int Decimal::compare(const Decimal& other) const {
  const auto sign = [](const Decimal& x) { return x.is_zero() ? 0 : x.negative_ ? -1 : 1; };
  if (sign(*this) != sign(other)) return sign(*this) < sign(other) ? -1 : 1;
  if (is_zero()) return 0;
  const auto size = [](const Decimal& x) {
    return static_cast<std::int64_t>(x.digits_.size()) + x.exponent_;
  };
  int order = digits_.compare(other.digits_);
  if (size(*this) != size(other)) order = size(*this) < size(other) ? -1 : 1;
  order = order < 0 ? -1 : static_cast<int>(order > 0);
  return negative_ ? -order : order;
}

bool Decimal::at_least_power(int power) const {
  return !is_zero() && static_cast<std::int64_t>(digits_.size()) + exponent_ > power;
}

}  // namespace inferno::grammar
