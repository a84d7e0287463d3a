#include "chat/jinja/tests.hpp"

#include <fmt/format.h>

#include "chat/jinja/filters.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/sequence.hpp"
#include "chat/jinja/unicode.hpp"
#include "platform/quote.hpp"

namespace inferno::jinja {
namespace {

const Value& only_argument(Interpreter& interpreter, std::string_view name, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    interpreter.budget().fail(fmt::format("the test '{}' needs one argument", name));
  }
  return arguments.positional.front();
}

template <Kind Wanted>
bool is_kind(Interpreter&, const Value& subject, Arguments&) {
  return subject.is(Wanted);
}

bool is_defined(Interpreter&, const Value& subject, Arguments&) {
  return !subject.is_undefined();
}

bool is_true(Interpreter&, const Value& subject, Arguments&) {
  return subject.is(Kind::boolean) && subject.boolean();
}

bool is_false(Interpreter&, const Value& subject, Arguments&) {
  return subject.is(Kind::boolean) && !subject.boolean();
}

bool is_whole(Interpreter&, const Value& subject, Arguments&) {
  return subject.is(Kind::integer) || subject.is(Kind::big_integer);
}

bool is_any_number(Interpreter&, const Value& subject, Arguments&) {
  return subject.is_number();
}

bool is_sequence(Interpreter&, const Value& subject, Arguments&) {
  switch (subject.kind()) {
    case Kind::undefined:
    case Kind::string:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::range:
      return true;
    default:
      return false;
  }
}

bool is_goable(Interpreter&, const Value& subject, Arguments&) {
  return is_iterable(subject) || subject.is(Kind::loop);
}

bool is_callable(Interpreter&, const Value& subject, Arguments&) {
  return subject.is(Kind::function) || subject.is(Kind::loop) || subject.is_undefined();
}

bool is_escaped(Interpreter&, const Value& subject, Arguments&) {
  return subject.is_string() && subject.string().markup;
}

/// Python's islower, isupper: letters of that case, and none of the other.
bool all_in_case(Interpreter& interpreter, const Value& subject, bool upper) {
  const auto text = to_text(interpreter.budget(), subject);
  const auto& bytes = text.bytes();
  bool any = false;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    if (is_title(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    any = any || (upper ? is_upper(c) : is_lower(c));
    offset += length;
  }
  return any;
}

bool is_lower_case(Interpreter& interpreter, const Value& subject, Arguments&) {
  return all_in_case(interpreter, subject, false);
}

bool is_upper_case(Interpreter& interpreter, const Value& subject, Arguments&) {
  return all_in_case(interpreter, subject, true);
}

bool leaves(Interpreter& interpreter, const Value& subject, std::int64_t divisor, std::int64_t rest) {
  const auto result = binary(interpreter.budget(), Operator::modulo, subject, Value(divisor));
  return equals(nullptr, result, Value(rest));
}

bool is_odd(Interpreter& interpreter, const Value& subject, Arguments&) {
  return leaves(interpreter, subject, 2, 1);
}

bool is_even(Interpreter& interpreter, const Value& subject, Arguments&) {
  return leaves(interpreter, subject, 2, 0);
}

bool is_divisible(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const auto& divisor = only_argument(interpreter, "divisibleby", arguments);
  return equals(nullptr, binary(budget, Operator::modulo, subject, divisor), Value(std::int64_t{0}));
}

template <Comparison Wanted>
bool compares(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  return compare(interpreter.budget(), Wanted, subject, only_argument(interpreter, "compare", arguments));
}

bool is_same(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  const auto& other = only_argument(interpreter, "sameas", arguments);
  if (subject.kind() != other.kind()) return false;
  if (subject.object() != nullptr || other.object() != nullptr) {
    // Python keeps short and equal strings of a template apart or not as it likes; equal ones count as same.
    return subject.object() == other.object() || (subject.is_string() && equals(nullptr, subject, other));
  }
  return equals(nullptr, subject, other);
}

bool is_filter(Interpreter&, const Value& subject, Arguments&) {
  return subject.is_string() && find_filter(subject.text().bytes()) != nullptr;
}

bool is_test(Interpreter&, const Value& subject, Arguments&) {
  return subject.is_string() && find_test(subject.text().bytes()) != nullptr;
}

struct NamedTest {
  std::string_view name;
  Test test;
};

constexpr NamedTest kTests[] = {
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"defined", is_defined},
    {"undefined", is_kind<Kind::undefined>},
    {"filter", is_filter},
    {"test", is_test},
    {"none", is_kind<Kind::none>},
    {"boolean", is_kind<Kind::boolean>},
    {"false", is_false},
    {"true", is_true},
    {"integer", is_whole},
    {"float", is_kind<Kind::real>},
    {"lower", is_lower_case},
    {"upper", is_upper_case},
    {"string", is_kind<Kind::string>},
    {"mapping", is_kind<Kind::dict>},
    {"number", is_any_number},
    {"sequence", is_sequence},
    {"iterable", is_goable},
    {"callable", is_callable},
    {"sameas", is_same},
    {"escaped", is_escaped},
    {"in", compares<Comparison::in>},
    {"==", compares<Comparison::equal>},
    {"eq", compares<Comparison::equal>},
    {"equalto", compares<Comparison::equal>},
    {"!=", compares<Comparison::not_equal>},
    {"ne", compares<Comparison::not_equal>},
    {">", compares<Comparison::greater>},
    {"gt", compares<Comparison::greater>},
    {"greaterthan", compares<Comparison::greater>},
    {">=", compares<Comparison::greater_equal>},
    {"ge", compares<Comparison::greater_equal>},
    {"<", compares<Comparison::less>},
    {"lt", compares<Comparison::less>},
    {"lessthan", compares<Comparison::less>},
    {"<=", compares<Comparison::less_equal>},
    {"le", compares<Comparison::less_equal>},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const auto& [own, test] : kTests) {
    if (own == name) return test;
  }
  return nullptr;
}

std::string unknown_test(std::string_view name) {
  return fmt::format(
      "there is no test {}; expected one of Jinja's own (defined, none, string, mapping, in, …)",
      quote(name));
}

}  // namespace inferno::jinja
