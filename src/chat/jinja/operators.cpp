#include "chat/jinja/operators.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <limits>

#include "chat/jinja/format.hpp"
#include "chat/jinja/function.hpp"
#include "chat/jinja/loop.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/sequence.hpp"

namespace inferno::jinja {
namespace {

constexpr std::string_view kOperatorNames[] = {"+", "-", "*", "/", "//", "%", "**"};

std::string_view name_of(Operator op) {
  return kOperatorNames[static_cast<std::size_t>(op)];
}

[[noreturn]] void fail_types(const Budget& budget, std::string_view op, const Value& left,
                             const Value& right) {
  require_defined(budget, left);
  require_defined(budget, right);
  budget.fail(fmt::format("{} does not take {} and {}; expected values of matching types", op,
                          type_name(left), type_name(right)));
}

[[noreturn]] void fail_range(const Budget& budget) {
  budget.fail("an integer beyond 64 bits came out; expected smaller numbers");
}

/// -1, 0, 1; 2 if one is not a number.
int order_numbers(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return left.integer() < right.integer() ? -1 : left.integer() > right.integer() ? 1 : 0;
  }
  // 64 bits of mantissa hold every integer, so nothing is rounded.
  const auto exact = [](const Value& value) -> long double {
    if (value.is(Kind::real)) return value.real();
    if (value.is(Kind::big_integer)) return std::strtold(value.text().bytes().c_str(), nullptr);
    return static_cast<long double>(value.integer());
  };
  const auto a = exact(left);
  const auto b = exact(right);
  if (std::isnan(a) || std::isnan(b)) return 2;
  return a < b ? -1 : a > b ? 1 : 0;
}

bool equal_lists(Budget* budget, const Values& left, const Values& right) {
  return left.size() == right.size() &&
         std::equal(left.begin(), left.end(), right.begin(),
                    [budget](const Value& a, const Value& b) { return equals(budget, a, b); });
}

bool equal_dicts(Budget* budget, const DictObject& left, const DictObject& right) {
  if (left.entries.size() != right.entries.size()) return false;
  return std::all_of(left.entries.begin(), left.entries.end(), [&](const auto& entry) {
    const auto* other = right.find(entry.first);
    return other != nullptr && equals(budget, entry.second, *other);
  });
}

bool equal_ranges(const RangeObject& left, const RangeObject& right) {
  return left.length == right.length &&
         (left.length == 0 || (left.start == right.start && (left.length == 1 || left.step == right.step)));
}

Value add(Budget& budget, const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    const bool markup = left.string().markup || right.string().markup;
    TextBuilder out(budget);
    for (const auto* part : {&left, &right}) {
      out.append(markup && !part->string().markup ? escape_html(budget, part->text()) : part->text());
    }
    return make_string(&budget, out.take(), markup);
  }
  if ((left.is(Kind::list) && right.is(Kind::list)) || (left.is(Kind::tuple) && right.is(Kind::tuple))) {
    budget.check_memory((left.list().items.size() + right.list().items.size()) * sizeof(Value));
    auto items = left.list().items;
    items.insert(items.end(), right.list().items.begin(), right.list().items.end());
    return left.is(Kind::list) ? make_list(&budget, std::move(items)) : make_tuple(&budget, std::move(items));
  }
  fail_types(budget, "+", left, right);
}

Value repeat(Budget& budget, const Value& value, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (value.is_string()) {
    const auto size = static_cast<double>(value.text().size()) * static_cast<double>(count);
    if (size > static_cast<double>(budget.limits().memory)) budget.check_memory(budget.limits().memory + 1);
    TextBuilder out(budget);
    out.append_repeated(value.text(), count);
    return make_string(&budget, out.take(), value.string().markup);
  }
  const auto& items = value.list().items;
  const auto size = static_cast<double>(items.size()) * static_cast<double>(count) * sizeof(Value);
  if (size > static_cast<double>(budget.limits().memory)) budget.check_memory(budget.limits().memory + 1);
  budget.check_memory(static_cast<std::size_t>(size));
  Values result;
  for (std::size_t i = 0; i < count && !items.empty(); ++i)
    result.insert(result.end(), items.begin(), items.end());
  return value.is(Kind::list) ? make_list(&budget, std::move(result))
                              : make_tuple(&budget, std::move(result));
}

bool is_repeatable(const Value& value) {
  return value.is_string() || value.is(Kind::list) || value.is(Kind::tuple);
}

std::int64_t floor_quotient(const Budget& budget, std::int64_t a, std::int64_t b) {
  if (b == 0) budget.fail("division by zero");
  if (b == -1) {
    if (a == std::numeric_limits<std::int64_t>::min()) fail_range(budget);
    return -a;
  }
  const auto quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Value power(const Budget& budget, std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) budget.fail("0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0 && __builtin_mul_overflow(result, base, &result)) fail_range(budget);
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) fail_range(budget);
  }
  return Value(result);
}

Value integer_arithmetic(const Budget& budget, Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case Operator::add:
      if (__builtin_add_overflow(a, b, &result)) fail_range(budget);
      return Value(result);
    case Operator::subtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_range(budget);
      return Value(result);
    case Operator::multiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_range(budget);
      return Value(result);
    case Operator::divide:
      if (b == 0) budget.fail("division by zero");
      return Value(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
    case Operator::floor_divide:
      return Value(floor_quotient(budget, a, b));
    case Operator::modulo:
      return Value(b == -1 ? std::int64_t{0} : a - floor_quotient(budget, a, b) * b);
    case Operator::power:
      return power(budget, a, b);
  }
  return Value(result);
}

/// Python's divmod of floats: the remainder has the divisor's sign.
std::pair<double, double> real_divmod(const Budget& budget, double a, double b) {
  if (b == 0.0) budget.fail("division by zero");
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder != 0.0) {
    if ((b < 0) != (remainder < 0)) {
      remainder += b;
      quotient -= 1.0;
    }
  } else {
    remainder = std::copysign(0.0, b);
  }
  if (quotient == 0.0) return {std::copysign(0.0, a / b), remainder};
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1.0;
  return {whole, remainder};
}

Value real_arithmetic(const Budget& budget, Operator op, double a, double b) {
  switch (op) {
    case Operator::add:
      return Value(a + b);
    case Operator::subtract:
      return Value(a - b);
    case Operator::multiply:
      return Value(a * b);
    case Operator::divide:
      if (b == 0.0) budget.fail("division by zero");
      return Value(a / b);
    case Operator::floor_divide:
      return Value(real_divmod(budget, a, b).first);
    case Operator::modulo:
      return Value(real_divmod(budget, a, b).second);
    case Operator::power: {
      if (a == 0.0 && b < 0.0) budget.fail("0 cannot be raised to a negative power");
      if (a < 0.0 && std::isfinite(b) && std::floor(b) != b) {
        budget.fail("a negative number to a broken power is no real number");
      }
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
        budget.fail("the power is too large for a float");
      return Value(result);
    }
  }
  return Value(a);
}

}  // namespace

void require_defined(const Budget& budget, const Value& value) {
  if (value.is_undefined()) budget.fail(value.undefined().message);
}

double as_real(const Budget& budget, const Value& value) {
  if (value.is(Kind::real)) return value.real();
  if (value.is_integral()) return static_cast<double>(value.integer());
  if (value.is(Kind::big_integer)) return std::strtod(value.text().bytes().c_str(), nullptr);
  require_defined(budget, value);
  budget.fail(fmt::format("expected a number, found a {}", type_name(value)));
}

bool equals(Budget* budget, const Value& left, const Value& right) {
  if (budget != nullptr) budget->step();
  if (left.is_number() && right.is_number()) return order_numbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::none:
    case Kind::undefined:
    case Kind::missing:
      return true;
    case Kind::string:
      if (budget != nullptr) budget->step_bytes(std::min(left.text().size(), right.text().size()));
      return left.text().bytes() == right.text().bytes();
    case Kind::list:
    case Kind::tuple:
      return equal_lists(budget, left.list().items, right.list().items);
    case Kind::dict:
      return equal_dicts(budget, left.dict(), right.dict());
    case Kind::range:
      return equal_ranges(left.range(), right.range());
    default:
      return left.object() == right.object();
  }
}

std::optional<std::size_t> hash_of(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return static_cast<std::size_t>(value.kind());
    case Kind::boolean:
    case Kind::integer:
      return std::hash<double>()(static_cast<double>(value.integer()));
    case Kind::big_integer:
      return std::hash<double>()(std::strtod(value.text().bytes().c_str(), nullptr));
    case Kind::real:
      return std::hash<double>()(value.real());
    case Kind::string:
      return std::hash<std::string>()(value.text().bytes());
    case Kind::tuple: {
      std::size_t hash = 17;
      for (const auto& item : value.list().items) {
        const auto own = hash_of(item);
        if (!own) return std::nullopt;
        hash = hash * 31 + *own;
      }
      return hash;
    }
    case Kind::list:
    case Kind::dict:
    case Kind::view:
      return std::nullopt;
    case Kind::range:
      return static_cast<std::size_t>(value.range().length);
    default:
      return std::hash<const Object*>()(value.object());
  }
}

int order(Budget& budget, const Value& left, const Value& right) {
  budget.step();
  if (left.is_number() && right.is_number()) return order_numbers(left, right);
  if (left.is_string() && right.is_string()) {
    budget.step_bytes(std::min(left.text().size(), right.text().size()));
    return left.text().bytes().compare(right.text().bytes());
  }
  if ((left.is(Kind::list) && right.is(Kind::list)) || (left.is(Kind::tuple) && right.is(Kind::tuple))) {
    const auto& a = left.list().items;
    const auto& b = right.list().items;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!equals(&budget, a[i], b[i])) return order(budget, a[i], b[i]);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  }
  fail_types(budget, "'<'", left, right);
}

bool contains(Budget& budget, const Value& haystack, const Value& needle) {
  switch (haystack.kind()) {
    case Kind::string:
      if (!needle.is_string()) fail_types(budget, "'in'", needle, haystack);
      budget.step_bytes(haystack.text().size());
      return haystack.text().bytes().find(needle.text().bytes()) != std::string::npos;
    case Kind::dict:
      if (!hash_of(needle)) budget.fail(fmt::format("a {} cannot be a key of a dict", type_name(needle)));
      budget.step();
      return haystack.dict().find(needle) != nullptr;
    case Kind::undefined:
      return false;
    default: {
      Iteration items(budget, haystack);
      while (const auto item = items.next()) {
        if (equals(&budget, *item, needle)) return true;
      }
      return false;
    }
  }
}

bool compare(Budget& budget, Comparison comparison, const Value& left, const Value& right) {
  switch (comparison) {
    case Comparison::equal:
      return equals(&budget, left, right);
    case Comparison::not_equal:
      return !equals(&budget, left, right);
    case Comparison::in:
      return contains(budget, right, left);
    case Comparison::not_in:
      return !contains(budget, right, left);
    default:
      break;
  }
  const int result = order(budget, left, right);
  if (result == 2) return false;  // NaN
  switch (comparison) {
    case Comparison::less:
      return result < 0;
    case Comparison::less_equal:
      return result <= 0;
    case Comparison::greater:
      return result > 0;
    default:
      return result >= 0;
  }
}

Value binary(Budget& budget, Operator op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return integer_arithmetic(budget, op, left.integer(), right.integer());
  }
  if (left.is_number() && right.is_number()) {
    if (!left.is(Kind::real) && !right.is(Kind::real)) fail_range(budget);
    return real_arithmetic(budget, op, as_real(budget, left), as_real(budget, right));
  }
  if (op == Operator::modulo && left.is_string()) {
    return make_string(&budget, format_percent(budget, left.text(), right, left.string().markup),
                       left.string().markup);
  }
  if (op == Operator::multiply && is_repeatable(left) && right.is_integral()) {
    return repeat(budget, left, right.integer());
  }
  if (op == Operator::multiply && is_repeatable(right) && left.is_integral()) {
    return repeat(budget, right, left.integer());
  }
  if (op == Operator::add) return add(budget, left, right);
  fail_types(budget, fmt::format("'{}'", name_of(op)), left, right);
}

Value negate(Budget& budget, const Value& operand) {
  if (operand.is(Kind::real)) return Value(-operand.real());
  if (operand.is_integral()) {
    return integer_arithmetic(budget, Operator::subtract, 0, operand.integer());
  }
  require_defined(budget, operand);
  budget.fail(fmt::format("'-' does not take a {}; expected a number", type_name(operand)));
}

Value plus(Budget& budget, const Value& operand) {
  if (operand.is_integral()) return Value(operand.integer());
  if (operand.is_number()) return operand;
  require_defined(budget, operand);
  budget.fail(fmt::format("'+' does not take a {}; expected a number", type_name(operand)));
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.integer() != 0;
    case Kind::real:
      return value.real() != 0.0;
    default:
      return length_of(value).value_or(1) != 0;
  }
}

std::optional<std::int64_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return static_cast<std::int64_t>(value.string().length);
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return static_cast<std::int64_t>(value.list().items.size());
    case Kind::dict:
      return static_cast<std::int64_t>(value.dict().entries.size());
    case Kind::range:
      return value.range().length;
    case Kind::loop:
      return static_cast<std::int64_t>(value.loop().length());
    default:
      return std::nullopt;
  }
}

}  // namespace inferno::jinja
