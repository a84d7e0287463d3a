// Methods of str that look for something, or tell what a string is made of.

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/string_methods.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

/// The part of a string that start and end (in characters, as in a slice) leave.
struct Part {
  std::string_view bytes;
  std::int64_t start = 0;   ///< in characters
  bool is_outside = false;  ///< start is behind the end: not even an empty string is found
};

Part part_of(Budget& budget, const Value& self, const Bound& bound) {
  const auto length = static_cast<std::int64_t>(self.string().length);
  const auto clamp = [length](std::int64_t index) {
    return index < 0 ? std::max<std::int64_t>(index + length, 0) : index;
  };
  const auto start = bound.is_set(1) ? clamp(bound.integer(1, 0)) : 0;
  const auto end = bound.is_set(2) ? std::min(clamp(bound.integer(2, 0)), length) : length;
  const std::string_view bytes = self.text().bytes();
  budget.step_bytes(bytes.size());
  Part part;
  part.start = start;
  part.is_outside = start > end;
  if (part.is_outside) return part;
  const auto first = start == 0 ? 0 : offset_of(bytes, static_cast<std::size_t>(start));
  part.bytes = bytes.substr(first);
  if (end < length)
    part.bytes = part.bytes.substr(0, offset_of(part.bytes, static_cast<std::size_t>(end - start)));
  return part;
}

template <bool FromRight>
std::int64_t position_of(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, FromRight ? "rfind" : "find", arguments, {"sub", "start", "end"}, 1);
  const auto part = part_of(budget, self, bound);
  const auto& wanted = bound.text(0).bytes();
  if (part.is_outside) return -1;
  const auto found = FromRight ? part.bytes.rfind(wanted) : part.bytes.find(wanted);
  if (found == std::string_view::npos) return -1;
  return part.start + static_cast<std::int64_t>(count_code_points(part.bytes.substr(0, found)));
}

template <bool FromRight>
Value find(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  return Value(position_of<FromRight>(interpreter, self, arguments));
}

template <bool FromRight>
Value index(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const auto position = position_of<FromRight>(interpreter, self, arguments);
  if (position < 0) interpreter.budget().fail("index(): the substring is not found; find() gives -1 instead");
  return Value(position);
}

Value count(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "count", arguments, {"sub", "start", "end"}, 1);
  const auto part = part_of(budget, self, bound);
  const auto& wanted = bound.text(0).bytes();
  if (part.is_outside) return Value(std::int64_t{0});
  if (wanted.empty()) return Value(static_cast<std::int64_t>(count_code_points(part.bytes)) + 1);
  std::int64_t result = 0;
  for (auto found = part.bytes.find(wanted); found != std::string_view::npos;
       found = part.bytes.find(wanted, found + wanted.size())) {
    ++result;
  }
  return Value(result);
}

bool has_affix(std::string_view bytes, std::string_view affix, bool at_end) {
  if (bytes.size() < affix.size()) return false;
  return (at_end ? bytes.substr(bytes.size() - affix.size()) : bytes.substr(0, affix.size())) == affix;
}

template <bool AtEnd>
Value has_end(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const auto* name = AtEnd ? "endswith" : "startswith";
  const Bound bound(budget, name, arguments, {"affix", "start", "end"}, 1);
  const auto part = part_of(budget, self, bound);
  if (!bound[0].is(Kind::tuple)) {
    const auto& affix = bound.text(0).bytes();
    return Value(!part.is_outside && has_affix(part.bytes, affix, AtEnd));
  }
  for (const auto& affix : bound[0].list().items) {
    if (!affix.is_string()) budget.fail(fmt::format("{}() needs a tuple of strings", name));
    if (!part.is_outside && has_affix(part.bytes, affix.text().bytes(), AtEnd)) return Value(true);
  }
  return Value(false);
}

template <bool (*IsOne)(char32_t), bool WhenEmpty>
Value all_are(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "isalpha", arguments, {});
  const auto& bytes = self.text().bytes();
  budget.step_bytes(bytes.size());
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    if (!IsOne(c)) return Value(false);
    offset += length;
  }
  return Value(WhenEmpty || !bytes.empty());
}

bool is_ascii(char32_t c) {
  return c < 0x80;
}

template <bool Upper>
Value is_case(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "isupper", arguments, {});
  Arguments none;
  return Value(interpreter.call_test(Upper ? "upper" : "lower", self, none));
}

Value is_titled(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "istitle", arguments, {});
  const auto& bytes = self.text().bytes();
  budget.step_bytes(bytes.size());
  bool any = false;
  bool in_word = false;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    const bool capital = is_upper(c) || is_title(c);
    if (capital ? in_word : is_lower(c) && !in_word) return Value(false);
    in_word = capital || is_lower(c);
    any = any || in_word;
    offset += length;
  }
  return Value(any);
}

Value is_identifier(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "isidentifier", arguments, {});
  const auto& bytes = self.text().bytes();
  budget.step_bytes(bytes.size());
  if (bytes.empty() || is_numeric(character_at(bytes, 0).code_point)) return Value(false);
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    if (!is_word(c)) return Value(false);
    offset += length;
  }
  return Value(true);
}

constexpr NamedMethod kMethods[] = {
    {"find", find<false>},
    {"rfind", find<true>},
    {"index", index<false>},
    {"rindex", index<true>},
    {"count", count},
    {"startswith", has_end<false>},
    {"endswith", has_end<true>},
    {"isalpha", all_are<is_alpha, false>},
    {"isdecimal", all_are<is_decimal, false>},
    {"isdigit", all_are<is_digit, false>},
    {"isnumeric", all_are<is_numeric, false>},
    {"isalnum", all_are<is_alnum, false>},
    {"isspace", all_are<is_space, false>},
    {"isascii", all_are<is_ascii, true>},
    {"isprintable", all_are<is_printable, true>},
    {"isupper", is_case<true>},
    {"islower", is_case<false>},
    {"istitle", is_titled},
    {"isidentifier", is_identifier},
};

}  // namespace

const Method* find_string_search_method(std::string_view name) {
  return find_in(kMethods, name);
}

}  // namespace inferno::jinja
