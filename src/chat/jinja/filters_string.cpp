// Filters that make text.

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <utility>

#include "chat/jinja/filters.hpp"
#include "chat/jinja/format.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/json.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/sequence.hpp"
#include "chat/jinja/string_methods.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

/// The value as string, marked as markup if it was.
Value soft_string(Budget& budget, const Value& value) {
  return value.is_string() ? value : make_string(&budget, to_text(budget, value));
}

Value string(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "string", arguments, {});
  return soft_string(interpreter.budget(), subject);
}

/// A method of str as a filter: the value becomes a string first.
template <std::size_t Size>
struct Name {
  constexpr Name(const char (&text)[Size]) { std::copy_n(text, Size, value); }  // NOLINT: a literal is a name
  char value[Size] = {};
};

template <Name Called>
Value by_method(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  const auto string = soft_string(interpreter.budget(), subject);
  return (*find_method(string, Called.value))(interpreter, string, arguments);
}

Value trim(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  return by_method<"strip">(interpreter, subject, arguments);
}

bool breaks_words(char32_t c) {
  return is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

/// Jinja's own title, which knows fewer ends of words than Python's.
Value title(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "title", arguments, {});
  const auto string = soft_string(budget, subject);
  const auto& text = string.text();
  const auto& bytes = text.bytes();
  budget.step(bytes.size() / 8);
  budget.check_memory(3 * bytes.size());
  Text result;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto first = character_at(bytes, offset);
    append_in_case(result, text, offset, Case::upper);
    offset += first.length;
    if (breaks_words(first.code_point)) continue;
    auto end = offset;
    while (end < bytes.size() && !breaks_words(character_at(bytes, end).code_point)) {
      end += character_at(bytes, end).length;
    }
    // Apart from its first letter: a sigma behind that is not final.
    result.append(in_case(text.slice(offset, end - offset), Case::lower));
    offset = end;
  }
  return make_string(&budget, std::move(result), string.string().markup);
}

Value center(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "center", arguments, {"width"});
  return make_string(&budget,
                     centered(budget, soft_string(budget, subject), bound.integer(0, 80), Text(" ", true)));
}

Value replace(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "replace", arguments, {"old", "new", "count"}, 2);
  const auto count = bound.is_set(2) ? bound.integer(2, -1) : -1;
  return make_string(&budget, replaced(budget, to_text(budget, subject), to_text(budget, bound[0]),
                                       to_text(budget, bound[1]), count));
}

Value join(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "join", arguments, {"d", "attribute"});
  const auto separator = bound.has(0) ? to_text(budget, bound[0]) : Text();
  TextBuilder out(budget);
  bool first = true;
  Iteration items(budget, subject);
  while (const auto item = items.next()) {
    if (!first) out.append(separator);
    first = false;
    append_text(out, budget, bound.is_set(1) ? attribute_path(interpreter, *item, bound[1]) : *item);
  }
  return make_string(&budget, out.take());
}

Value indent(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "indent", arguments, {"width", "first", "blank"});
  require_defined(budget, subject);
  if (!subject.is_string()) budget.fail(fmt::format("indent takes a string, found a {}", type_name(subject)));
  Text indention;
  if (bound.has(0) && bound[0].is_string()) {
    indention = bound[0].text();
  } else {
    const auto width = std::max<std::int64_t>(bound.integer(0, 4), 0);
    budget.check_memory(static_cast<std::size_t>(width));
    indention = Text(std::string(static_cast<std::size_t>(width), ' '), true);
  }
  const bool indent_first = bound.boolean(1, false);
  const bool indent_blank = bound.boolean(2, false);
  auto with_end = subject.text();
  with_end.append("\n", true);
  TextBuilder out(budget);
  bool first = true;
  for (const auto& line : lines_of(budget, with_end, false)) {
    if (!first) out.append("\n", true);
    if (first ? indent_first : indent_blank || !line.empty()) out.append(indention);
    first = false;
    out.append(line);
  }
  return make_string(&budget, out.take(), subject.string().markup);
}

Value truncate(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "truncate", arguments, {"length", "killwords", "end", "leeway"});
  const auto length = bound.integer(0, 255);
  const auto leeway = bound.is_set(3) ? bound.integer(3, 5) : 5;
  const auto end = bound.has(2) ? bound.text(2) : Text("...", true);
  const auto end_length = static_cast<std::int64_t>(count_code_points(end.bytes()));
  if (length < end_length || leeway < 0)
    budget.fail("truncate needs a length of at least its end's and a leeway >= 0");
  const auto own_length = length_of(subject);
  if (own_length && *own_length <= length + leeway) return subject;
  if (!subject.is_string())
    budget.fail(fmt::format("truncate takes a string, found a {}", type_name(subject)));
  const auto& text = subject.text();
  auto size = offset_of(text.bytes(), static_cast<std::size_t>(length - end_length));
  if (!bound.boolean(1, false) && size > 0) {
    const auto blank = text.bytes().rfind(' ', size - 1);
    if (blank != std::string::npos) size = blank;
  }
  TextBuilder out(budget);
  out.append_slice(text, 0, size);
  out.append(end);
  return make_string(&budget, out.take());
}

Value wordcount(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "wordcount", arguments, {});
  const auto text = to_text(budget, subject);
  const auto& bytes = text.bytes();
  budget.step_bytes(bytes.size());
  std::int64_t count = 0;
  bool in_word = false;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    if (is_word(c) && !in_word) ++count;
    in_word = is_word(c);
    offset += length;
  }
  return Value(count);
}

Value format(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    budget.fail("format takes either values or names, not both");
  }
  const auto string = soft_string(budget, subject);
  Value values;
  if (arguments.named.empty()) {
    values = make_tuple(&budget, arguments.positional);
  } else {
    DictBuilder builder(&budget);
    for (auto& [name, value] : arguments.named) builder.set(make_trusted(&budget, name), value);
    values = builder.finish();
  }
  return make_string(&budget, format_percent(budget, string.text(), values, string.string().markup),
                     string.string().markup);
}

Value safe(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "safe", arguments, {});
  return make_string(&interpreter.budget(), to_text(interpreter.budget(), subject), true);
}

template <bool Always>
Value escape(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "escape", arguments, {});
  if (!Always && subject.is_string() && subject.string().markup) return subject;
  return make_string(&budget, escape_html(budget, to_text(budget, subject)), true);
}

Value tojson(Interpreter& interpreter, const Value& subject, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonFormat json;
  json.ascii_only = bound.boolean(0, false);
  json.sort_keys = bound.boolean(3, false);
  if (bound.is_set(1)) {
    json.multi_line = true;
    json.item_separator = Text(",", true);
    if (bound[1].is_string()) {
      json.indent = bound[1].text();
    } else {
      const auto width = std::max<std::int64_t>(bound.integer(1, 0), 0);
      budget.check_memory(static_cast<std::size_t>(width));
      json.indent = Text(std::string(static_cast<std::size_t>(width), ' '), true);
    }
  }
  if (bound.is_set(2)) {
    const auto separators = collect(budget, bound[2]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      budget.fail("tojson needs two strings as separators: between items, behind keys");
    }
    json.item_separator = separators[0].text();
    json.key_separator = separators[1].text();
  }
  return make_string(&budget, dump_json(budget, subject, json));
}

constexpr NamedFilter kFilters[] = {
    {"tojson", tojson},
    {"trim", trim},
    {"string", string},
    {"upper", by_method<"upper">},
    {"lower", by_method<"lower">},
    {"capitalize", by_method<"capitalize">},
    {"title", title},
    {"center", center},
    {"replace", replace},
    {"join", join},
    {"indent", indent},
    {"truncate", truncate},
    {"wordcount", wordcount},
    {"format", format},
    {"safe", safe},
    {"escape", escape<false>},
    {"e", escape<false>},
    {"forceescape", escape<true>},
};

}  // namespace

Filter find_string_filter(std::string_view name) {
  return find_in(kFilters, name);
}

}  // namespace inferno::jinja
