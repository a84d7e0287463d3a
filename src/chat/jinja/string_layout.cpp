// Methods of str that fill up to a width.

#include <algorithm>
#include <fmt/format.h>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/string_methods.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

const Text& one_blank() {
  static const Text blank(" ", true);
  return blank;
}

Text filled(Budget& budget, const Value& string, std::int64_t left, std::int64_t right, const Text& fill) {
  const auto times = [&budget](std::int64_t count) {
    const auto result = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
    budget.check_memory(result);
    return result;
  };
  TextBuilder out(budget);
  out.append_repeated(fill, times(left));
  out.append(string.text());
  out.append_repeated(fill, times(right));
  return out.take();
}

const Text& fill_argument(const Budget& budget, const Bound& bound) {
  if (!bound.has(1)) return one_blank();
  const auto& fill = bound.text(1);
  if (count_code_points(fill.bytes()) != 1) budget.fail("the fill character must be exactly one character");
  return fill;
}

std::int64_t missing_to(const Value& self, const Bound& bound) {
  return std::max<std::int64_t>(bound.integer(0, 0) - static_cast<std::int64_t>(self.string().length), 0);
}

Value center(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "center", arguments, {"width", "fillchar"}, 1);
  return make_string(&budget, centered(budget, self, bound.integer(0, 0), fill_argument(budget, bound)));
}

template <bool AtLeft>
Value justify(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "ljust", arguments, {"width", "fillchar"}, 1);
  const auto count = missing_to(self, bound);
  const auto& fill = fill_argument(budget, bound);
  return make_string(&budget, filled(budget, self, AtLeft ? 0 : count, AtLeft ? count : 0, fill));
}

Value zero_fill(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "zfill", arguments, {"width"}, 1);
  const auto count = static_cast<std::size_t>(missing_to(self, bound));
  budget.check_memory(count);
  const auto& text = self.text();
  const bool signed_number = !text.empty() && (text.bytes()[0] == '-' || text.bytes()[0] == '+');
  TextBuilder out(budget);
  if (signed_number) out.append_slice(text, 0, 1);
  out.append(std::string(count, '0'), true);
  out.append_slice(text, signed_number ? 1 : 0, text.size() - (signed_number ? 1 : 0));
  return make_string(&budget, out.take());
}

Value expand_tabs(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "expandtabs", arguments, {"tabsize"});
  const auto size = std::max<std::int64_t>(bound.integer(0, 8), 0);
  budget.check_memory(static_cast<std::size_t>(size));
  const auto& bytes = self.text().bytes();
  TextBuilder out(budget);
  std::int64_t column = 0;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto length = character_at(bytes, offset).length;
    if (bytes[offset] == '\t') {
      const auto blanks = size == 0 ? 0 : size - column % size;
      out.append(std::string(static_cast<std::size_t>(blanks), ' '), true);
      column += blanks;
    } else {
      out.append_slice(self.text(), offset, length);
      column = bytes[offset] == '\n' || bytes[offset] == '\r' ? 0 : column + 1;
    }
    offset += length;
  }
  return make_string(&budget, out.take());
}

constexpr NamedMethod kMethods[] = {
    {"center", center},   {"ljust", justify<true>},    {"rjust", justify<false>},
    {"zfill", zero_fill}, {"expandtabs", expand_tabs},
};

}  // namespace

const Method* find_string_layout_method(std::string_view name) {
  return find_in(kMethods, name);
}

Text centered(Budget& budget, const Value& string, std::int64_t width, const Text& fill) {
  const auto missing = std::max<std::int64_t>(width - static_cast<std::int64_t>(string.string().length), 0);
  // Python puts the odd blank at the left only if the width is odd.
  const auto left = missing / 2 + (missing & width & 1);
  return filled(budget, string, left, missing - left, fill);
}

}  // namespace inferno::jinja
