#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "chat/jinja/budget.hpp"

namespace inferno::jinja {

/// How a value is written into a field: what Python's format specifications have in common.
struct FieldFormat {
  std::string fill = " ";  ///< one character
  char align = 0;          ///< '<', '>', '^', '=' (between sign and digits); 0: the type's own
  char sign = '-';         ///< '-': only of negative numbers, '+', ' '
  bool alternate = false;  ///< '#'
  char grouping = 0;       ///< ',' or '_'
  std::int64_t width = 0;
  std::int64_t precision = -1;  ///< -1: none
  char type = 0;
};

/// Sign and digits, without filling.
struct NumberText {
  std::string sign;
  std::string digits;
};

/// Of types d, b, o, x, X.
NumberText format_integer(std::int64_t value, const FieldFormat& format);
/// Of types e, f, g, %, their capitals, and 0 (as repr does it).
NumberText format_real(const Budget& budget, double value, const FieldFormat& format);
/// Fills a number up to the field's width.
std::string fill_number(const Budget& budget, const NumberText& number, const FieldFormat& format);

}  // namespace inferno::jinja
