#include "chat/jinja/number_format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>

#include "chat/jinja/print.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

constexpr std::int64_t kMaxPrecision = 500;

std::string sign_of(bool negative, const FieldFormat& format) {
  if (negative) return "-";
  return format.sign == '-' ? "" : std::string(1, format.sign);
}

/// Puts the separator between groups of digits before the point.
std::string grouped(const std::string& digits, char separator, std::size_t size) {
  auto end = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (size == 3) end = digits.find_first_not_of("0123456789");
  const auto whole = digits.substr(0, end);
  std::string result;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (i > 0 && (whole.size() - i) % size == 0) result += separator;
    result += whole[i];
  }
  return end == std::string::npos ? result : result + digits.substr(end);
}

}  // namespace

NumberText format_integer(std::int64_t value, const FieldFormat& format) {
  auto magnitude = static_cast<std::uint64_t>(value);
  if (value < 0) magnitude = 0 - magnitude;
  NumberText result;
  result.sign = sign_of(value < 0, format);
  switch (format.type) {
    case 'b':
      result.digits = fmt::format("{:b}", magnitude);
      break;
    case 'o':
      result.digits = fmt::format("{:o}", magnitude);
      break;
    case 'x':
      result.digits = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      result.digits = fmt::format("{:X}", magnitude);
      break;
    default:
      result.digits = fmt::format("{}", magnitude);
      break;
  }
  const bool decimal = format.type != 'b' && format.type != 'o' && format.type != 'x' && format.type != 'X';
  if (format.grouping != 0) result.digits = grouped(result.digits, format.grouping, decimal ? 3 : 4);
  if (format.alternate && !decimal) result.sign += fmt::format("0{}", format.type);
  return result;
}

NumberText format_real(const Budget& budget, double value, const FieldFormat& format) {
  if (format.precision > kMaxPrecision) {
    budget.fail(
        fmt::format("a number's precision is {}; expected at most {}", format.precision, kMaxPrecision));
  }
  NumberText result;
  const bool negative = std::signbit(value) && !std::isnan(value);
  result.sign = sign_of(negative, format);
  const bool percent = format.type == '%';
  const double magnitude = std::fabs(percent ? value * 100.0 : value);
  const char type = percent ? 'f' : format.type;
  const bool capital = type == 'E' || type == 'F' || type == 'G';
  if (!std::isfinite(magnitude)) {
    result.digits = std::isnan(magnitude) ? (capital ? "NAN" : "nan") : (capital ? "INF" : "inf");
    if (percent) result.digits += '%';
    return result;
  }
  if (type == 0 && format.precision < 0) {
    result.digits = real_to_string(magnitude);
  } else {
    const int precision = static_cast<int>(format.precision < 0 ? 6 : format.precision);
    const char conversion = type == 0 || type == 'n' ? 'g' : type;
    const auto pattern = fmt::format("%{}.*{}", format.alternate ? "#" : "", conversion);
    std::string buffer(static_cast<std::size_t>(precision) + 400, '\0');
    const int size = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), precision, magnitude);
    buffer.resize(static_cast<std::size_t>(std::max(size, 0)));
    if (type == 0 && buffer.find_first_of(".e") == std::string::npos) buffer += ".0";
    result.digits = std::move(buffer);
  }
  if (format.grouping != 0) result.digits = grouped(result.digits, format.grouping, 3);
  if (percent) result.digits += '%';
  return result;
}

std::string fill_number(const Budget& budget, const NumberText& number, const FieldFormat& format) {
  const auto size = static_cast<std::int64_t>(number.sign.size() + number.digits.size());
  const auto missing = std::max<std::int64_t>(format.width - size, 0);
  budget.check_memory(static_cast<std::size_t>(missing) * format.fill.size());
  const auto fill = [&format](std::int64_t count) {
    std::string result;
    for (std::int64_t i = 0; i < count; ++i) result += format.fill;
    return result;
  };
  switch (format.align) {
    case '<':
      return number.sign + number.digits + fill(missing);
    case '^':
      return fill(missing / 2) + number.sign + number.digits + fill(missing - missing / 2);
    case '=':
      return number.sign + fill(missing) + number.digits;
    default:
      return fill(missing) + number.sign + number.digits;
  }
}

}  // namespace inferno::jinja
