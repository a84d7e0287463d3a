// Filters that make numbers, or stand in for a value.

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <optional>
#include <string>

#include "chat/jinja/filters.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/string_methods.hpp"

namespace inferno::jinja {
namespace {

/// Text without blanks around it and single underscores between digits; nothing if underscores stand
/// elsewhere.
std::optional<std::string> plain_number(Budget& budget, const Text& text) {
  const auto bytes = stripped(budget, text, nullptr, true, true).bytes();
  const auto is_digit_like = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::string result;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != '_') {
      result += bytes[i];
    } else if (i == 0 || i + 1 >= bytes.size() || !is_digit_like(bytes[i - 1]) ||
               !is_digit_like(bytes[i + 1])) {
      return std::nullopt;
    }
  }
  return result;
}

/// Python's int(text, base).
std::optional<std::int64_t> parse_integer(Budget& budget, const Text& text, std::int64_t base) {
  auto plain = plain_number(budget, text);
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits.front() == '-';
  if (negative || digits.front() == '+') digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])));
    const std::int64_t implied = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (implied != 0 && (base == implied || base == 0)) {
      base = implied;
      digits.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || digits.empty() || digits.front() == '-') return std::nullopt;
  const auto signed_digits = fmt::format("{}{}", negative ? "-" : "", digits);
  std::int64_t value = 0;
  const auto* last = signed_digits.data() + signed_digits.size();
  const auto [end, error] = std::from_chars(signed_digits.data(), last, value, static_cast<int>(base));
  if (end != last) return std::nullopt;
  if (error == std::errc::result_out_of_range)
    budget.fail("an integer beyond 64 bits came out; expected smaller numbers");
  return value;
}

/// Python's float(text).
std::optional<double> parse_real(Budget& budget, const Text& text) {
  const auto plain = plain_number(budget, text);
  if (!plain || plain->empty() || plain->find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(plain->c_str(), &end);
  return end == plain->c_str() + plain->size() ? std::optional(value) : std::nullopt;
}

std::optional<double> to_real(Interpreter& interpreter, const Value& value) {
  if (value.is_string()) return parse_real(interpreter.budget(), value.text());
  require_defined(interpreter.budget(), value);
  if (!value.is_number()) return std::nullopt;
  return as_real(interpreter.budget(), value);
}

Value to_int(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "int", arguments, {"default", "base"});
  if (subject.is_integral()) return Value(subject.integer());
  if (subject.is(Kind::big_integer)) return subject;
  if (subject.is_string()) {
    if (const auto value = parse_integer(budget, subject.text(), bound.integer(1, 10))) return Value(*value);
  }
  const auto real = to_real(interpreter, subject);
  if (!real || !std::isfinite(*real)) return bound.has(0) ? bound[0] : Value(std::int64_t{0});
  if (std::fabs(*real) >= 9.2e18) budget.fail("an integer beyond 64 bits came out; expected smaller numbers");
  return Value(static_cast<std::int64_t>(*real));
}

Value to_float(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "float", arguments, {"default"});
  const auto real = to_real(interpreter, subject);
  if (real) return Value(*real);
  return bound.has(0) ? bound[0] : Value(0.0);
}

Value absolute(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "abs", arguments, {});
  if (subject.is(Kind::real)) return Value(std::fabs(subject.real()));
  if (subject.is_integral())
    return subject.integer() < 0 ? negate(budget, subject) : Value(subject.integer());
  require_defined(budget, subject);
  budget.fail(fmt::format("abs takes a number, found a {}", type_name(subject)));
}

/// Python's round(value, precision): to even where two are equally near.
double rounded(double value, std::int64_t precision) {
  if (!std::isfinite(value) || precision > 320) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[700];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer, nullptr);
}

Value round(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "round", arguments, {"precision", "method"});
  const auto precision = bound.integer(0, 0);
  const auto method = bound.has(1) ? bound.text(1).bytes() : "common";
  if (method != "common" && method != "ceil" && method != "floor") {
    budget.fail("round knows the methods common, ceil and floor");
  }
  const double value = as_real(budget, subject);
  if (method == "common") {
    if (!subject.is_integral()) return Value(rounded(value, precision));
    return precision >= 0 ? Value(subject.integer())
                          : Value(static_cast<std::int64_t>(rounded(value, precision)));
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  // Python's ceil and floor give integers, which have no negative zero.
  return Value(((method == "ceil" ? std::ceil(value * unit) : std::floor(value * unit)) + 0.0) / unit);
}

Value fallback(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "default", arguments, {"default_value", "boolean"});
  if (!subject.is_undefined() && !(bound.boolean(1, false) && !truth(subject))) return subject;
  return bound.has(0) ? bound[0] : make_trusted(&budget, "");
}

Value attr(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "attr", arguments, {"name"}, 1);
  const auto& name = bound.text(0).bytes();
  // Attributes only, never what stands under a key.
  if (subject.is(Kind::dict) && find_method(subject, name) == nullptr) return make_undefined(name);
  return interpreter.attribute(subject, name);
}

constexpr NamedFilter kFilters[] = {
    {"int", to_int}, {"float", to_float},   {"abs", absolute}, {"round", round},
    {"d", fallback}, {"default", fallback}, {"attr", attr},
};

}  // namespace

Filter find_number_filter(std::string_view name) {
  return find_in(kFilters, name);
}

}  // namespace inferno::jinja
