// Methods of str that cut and join.

#include "chat/jinja/string_methods.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "chat/jinja/format.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/sequence.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

Value like(Budget& budget, const Value& self, Text text) {
  return make_string(&budget, std::move(text), self.string().markup);
}

/// A string argument; what is joined with markup is escaped.
Text argument(Budget& budget, const Value& self, const Bound& bound, std::size_t index) {
  const auto& text = bound.text(index);
  return self.string().markup && !bound[index].string().markup ? escape_html(budget, text) : text;
}

bool contains_character(const std::string& chars, std::string_view character) {
  return chars.find(character) != std::string::npos;
}

/// Whether the character at `offset` is stripped.
bool is_stripped(const Text& text, const Text* chars, std::size_t offset) {
  const auto [c, length] = character_at(text.bytes(), offset);
  return chars == nullptr
             ? is_space(c)
             : contains_character(chars->bytes(), std::string_view(text.bytes()).substr(offset, length));
}

template <bool Left, bool Right>
Value strip(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "strip", arguments, {"chars"});
  if (!bound.is_set(0)) return like(budget, self, stripped(budget, self.text(), nullptr, Left, Right));
  const auto chars = argument(budget, self, bound, 0);
  return like(budget, self, stripped(budget, self.text(), &chars, Left, Right));
}

Value replace(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "replace", arguments, {"old", "new", "count"}, 2);
  return like(budget, self,
              replaced(budget, self.text(), argument(budget, self, bound, 0),
                       argument(budget, self, bound, 1), bound.integer(2, -1)));
}

class Splitter {
 public:
  Splitter(Budget& budget, const Value& self) : budget_(budget), self_(self), bytes_(self.text().bytes()) {}

  void add(std::size_t first, std::size_t last) {
    budget_.step();
    parts_.push_back(like(budget_, self_, self_.text().slice(first, last - first)));
  }
  Value list() { return make_list(&budget_, std::move(parts_)); }

  void at_separator(const std::string& separator, std::int64_t most) {
    std::size_t first = 0;
    for (auto found = bytes_.find(separator); found != std::string::npos && most != 0;
         found = bytes_.find(separator, first)) {
      add(first, found);
      first = found + separator.size();
      --most;
    }
    add(first, bytes_.size());
  }

  void at_separator_from_right(const std::string& separator, std::int64_t most) {
    auto last = bytes_.size();
    while (most != 0 && last >= separator.size()) {
      const auto found = bytes_.rfind(separator, last - separator.size());
      if (found == std::string::npos) break;
      add(found + separator.size(), last);
      last = found;
      --most;
    }
    add(0, last);
    std::reverse(parts_.begin(), parts_.end());
  }

  void at_blanks(std::int64_t most) {
    std::size_t position = skip_blanks(0);
    while (position < bytes_.size()) {
      if (most-- == 0) {
        add(position, bytes_.size());
        return;
      }
      auto end = position;
      while (end < bytes_.size() && !blank(end)) end += character_at(bytes_, end).length;
      add(position, end);
      position = skip_blanks(end);
    }
  }

  void at_blanks_from_right(std::int64_t most) {
    auto end = blanks_before(bytes_.size());
    while (end > 0) {
      if (most-- == 0) {
        add(0, end);
        break;
      }
      auto first = end;
      while (first > 0 && !blank(previous_character(bytes_, first)))
        first = previous_character(bytes_, first);
      add(first, end);
      end = blanks_before(first);
    }
    std::reverse(parts_.begin(), parts_.end());
  }

 private:
  bool blank(std::size_t offset) const { return is_space(character_at(bytes_, offset).code_point); }
  std::size_t skip_blanks(std::size_t offset) const {
    while (offset < bytes_.size() && blank(offset)) offset += character_at(bytes_, offset).length;
    return offset;
  }
  std::size_t blanks_before(std::size_t end) const {
    while (end > 0 && blank(previous_character(bytes_, end))) end = previous_character(bytes_, end);
    return end;
  }

  Budget& budget_;
  const Value& self_;
  const std::string& bytes_;
  Values parts_;
};

template <bool FromRight>
Value split(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "split", arguments, {"sep", "maxsplit"});
  budget.step_bytes(self.text().size());
  const auto most = bound.integer(1, -1);
  Splitter splitter(budget, self);
  if (!bound.is_set(0)) {
    FromRight ? splitter.at_blanks_from_right(most) : splitter.at_blanks(most);
    return splitter.list();
  }
  const auto separator = argument(budget, self, bound, 0).bytes();
  if (separator.empty()) budget.fail("split() has an empty separator; expected at least one character");
  FromRight ? splitter.at_separator_from_right(separator, most) : splitter.at_separator(separator, most);
  return splitter.list();
}

Value splitlines(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "splitlines", arguments, {"keepends"});
  Values parts;
  for (auto& line : lines_of(budget, self.text(), bound.boolean(0, false))) {
    parts.push_back(like(budget, self, std::move(line)));
  }
  return make_list(&budget, std::move(parts));
}

template <bool FromRight>
Value partition(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "partition", arguments, {"sep"}, 1);
  const auto separator = argument(budget, self, bound, 0);
  if (separator.empty()) budget.fail("partition() has an empty separator; expected at least one character");
  const auto& text = self.text();
  budget.step_bytes(text.size());
  const auto found = FromRight ? text.bytes().rfind(separator.bytes()) : text.bytes().find(separator.bytes());
  if (found == std::string::npos) {
    const auto empty = like(budget, self, Text());
    return make_tuple(&budget, FromRight ? Values{empty, empty, self} : Values{self, empty, empty});
  }
  const auto after = found + separator.size();
  return make_tuple(&budget, {like(budget, self, text.slice(0, found)),
                              like(budget, self, text.slice(found, separator.size())),
                              like(budget, self, text.slice(after, text.size() - after))});
}

Value join(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "join", arguments, {"iterable"}, 1);
  TextBuilder out(budget);
  bool first = true;
  std::size_t place = 0;
  Iteration items(budget, bound[0]);
  while (const auto item = items.next()) {
    if (!item->is_string()) {
      require_defined(budget, *item);
      budget.fail(fmt::format("join(): item {} is a {}; expected a string", place, type_name(*item)));
    }
    if (!first) out.append(self.text());
    first = false;
    ++place;
    out.append(self.string().markup && !item->string().markup ? escape_html(budget, item->text())
                                                              : item->text());
  }
  return like(budget, self, out.take());
}

template <Case To>
Value change_case(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "upper", arguments, {});
  interpreter.budget().step(self.string().length / 8);
  interpreter.budget().check_memory(3 * self.text().size());
  return like(interpreter.budget(), self, in_case(self.text(), To));
}

template <Text (*Change)(const Text&)>
Value change_words(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  const Bound bound(interpreter.budget(), "title", arguments, {});
  interpreter.budget().step(self.string().length / 8);
  interpreter.budget().check_memory(3 * self.text().size());
  return like(interpreter.budget(), self, Change(self.text()));
}

Value format(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  return like(interpreter.budget(), self,
              format_braces(interpreter, self.text(), arguments, self.string().markup));
}

Value format_map(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, "format_map", arguments, {"mapping"}, 1);
  if (!bound[0].is(Kind::dict)) budget.fail("format_map() needs a dict");
  Arguments named;
  for (const auto& [key, value] : bound[0].dict().entries) {
    if (key.is_string()) named.named.emplace_back(key.text().bytes(), value);
  }
  return like(budget, self, format_braces(interpreter, self.text(), named, self.string().markup));
}

template <bool AtEnd>
Value remove_affix(Interpreter& interpreter, const Value& self, Arguments& arguments) {
  auto& budget = interpreter.budget();
  const Bound bound(budget, AtEnd ? "removesuffix" : "removeprefix", arguments, {"affix"}, 1);
  const auto& text = self.text();
  const auto affix = argument(budget, self, bound, 0).bytes();
  const std::string_view bytes = text.bytes();
  if (affix.empty() || bytes.size() < affix.size()) return self;
  const auto rest = bytes.size() - affix.size();
  if (AtEnd) return bytes.substr(rest) == affix ? like(budget, self, text.slice(0, rest)) : self;
  return bytes.substr(0, affix.size()) == affix ? like(budget, self, text.slice(affix.size(), rest)) : self;
}

constexpr NamedMethod kMethods[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"rsplit", split<true>},
    {"splitlines", splitlines},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"replace", replace},
    {"join", join},
    {"upper", change_case<Case::upper>},
    {"lower", change_case<Case::lower>},
    {"casefold", change_case<Case::fold>},
    {"title", change_words<titled>},
    {"capitalize", change_words<capitalized>},
    {"swapcase", change_words<case_swapped>},
    {"format", format},
    {"format_map", format_map},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
};

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

const Method* find_string_method(std::string_view name) {
  if (const auto* method = find_in(kMethods, name)) return method;
  if (const auto* method = find_string_search_method(name)) return method;
  return find_string_layout_method(name);
}

Text stripped(Budget& budget, const Text& text, const Text* chars, bool left, bool right) {
  budget.step_bytes(text.size());
  std::size_t first = 0;
  auto last = text.size();
  while (left && first < last && is_stripped(text, chars, first)) {
    budget.step(chars == nullptr ? 0 : 1);
    first += character_at(text.bytes(), first).length;
  }
  while (right && last > first) {
    const auto before = previous_character(text.bytes(), last);
    if (!is_stripped(text, chars, before)) break;
    budget.step(chars == nullptr ? 0 : 1);
    last = before;
  }
  return text.slice(first, last - first);
}

Text replaced(Budget& budget, const Text& text, const Text& old, const Text& now, std::int64_t count) {
  TextBuilder out(budget);
  const auto& bytes = text.bytes();
  budget.step_bytes(bytes.size());
  std::size_t copied = 0;
  if (old.empty()) {
    // Between all characters, and at both ends.
    for (std::size_t offset = 0; count != 0; --count) {
      out.append_slice(text, copied, offset - copied);
      out.append(now);
      copied = offset;
      if (offset >= bytes.size()) break;
      offset += character_at(bytes, offset).length;
    }
  } else {
    for (auto found = bytes.find(old.bytes()); found != std::string::npos && count != 0;
         found = bytes.find(old.bytes(), copied)) {
      out.append_slice(text, copied, found - copied);
      out.append(now);
      copied = found + old.size();
      --count;
    }
  }
  out.append_slice(text, copied, bytes.size() - copied);
  return out.take();
}

std::vector<Text> lines_of(Budget& budget, const Text& text, bool keep_ends) {
  std::vector<Text> lines;
  const auto& bytes = text.bytes();
  budget.step_bytes(bytes.size());
  std::size_t first = 0;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    const auto line_end = offset;
    offset += length;
    if (!is_line_end(c)) continue;
    if (c == '\r' && offset < bytes.size() && bytes[offset] == '\n') ++offset;
    budget.step();
    budget.check_memory((lines.size() + 1) * sizeof(Text) + bytes.size());
    lines.push_back(text.slice(first, (keep_ends ? offset : line_end) - first));
    first = offset;
  }
  if (first < bytes.size()) lines.push_back(text.slice(first, bytes.size() - first));
  return lines;
}

}  // namespace inferno::jinja
