#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace inferno::grammar {

__extension__ using Int128 = __int128;

/// A JSON number, exactly: +-digits x 10^exponent, without zeros at either end of the digits. 0 has none.
class Decimal {
 public:
  Decimal() = default;
  /// Of a number as JSON writes it.
  explicit Decimal(std::string_view json_number);

  bool is_negative() const { return negative_; }
  bool is_zero() const { return digits_.empty(); }
  bool is_integer() const { return exponent_ >= 0; }
  /// How many digits stand after the point.
  std::int64_t fraction_digits() const { return exponent_ < 0 ? -exponent_ : 0; }
  /// value x 10^places; nullopt if that is no integer, or has more than 37 digits.
  std::optional<Int128> scaled(int places) const;
  /// The greatest integer that is not above value x 10^places, and whether it is that; the magnitude must be
  /// below 10^(36 - places).
  std::pair<Int128, bool> scaled_floor(int places) const;
  /// Below, at or above 0: how this and another one are ordered.
  int compare(const Decimal& other) const;
  /// Beyond what `scaled` can tell: the magnitude is at least 10^power.
  bool at_least_power(int power) const;

  bool operator==(const Decimal&) const = default;

 private:
  bool negative_ = false;
  std::string digits_;
  std::int64_t exponent_ = 0;
};

}  // namespace inferno::grammar
