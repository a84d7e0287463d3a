#include "chat/jinja/print.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

#include "chat/jinja/function.hpp"
#include "chat/jinja/loop.hpp"
#include "chat/jinja/unicode.hpp"

namespace inferno::jinja {
namespace {

/// Calls `piece(first, count, replacement)` for the stretches of `text`: those copied have an empty
/// replacement.
template <typename Replacement, typename Piece>
void replace_characters(const Text& text, Replacement&& replacement, Piece&& piece) {
  const auto& bytes = text.bytes();
  std::size_t copied = 0;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    const std::string instead = replacement(c);
    if (!instead.empty()) {
      piece(copied, offset - copied, std::string_view());
      piece(offset, length, instead);
      copied = offset + length;
    }
    offset += length;
  }
  piece(copied, bytes.size() - copied, std::string_view());
}

template <typename Replacement>
void append_replacing(TextBuilder& out, const Text& text, Replacement&& replacement) {
  replace_characters(text, replacement, [&](std::size_t first, std::size_t count, std::string_view instead) {
    if (instead.empty()) {
      out.append_slice(text, first, count);
    } else {
      out.append(instead, text.trusted_at(first));
    }
  });
}

void append_string_repr(TextBuilder& out, const Text& text) {
  const auto& bytes = text.bytes();
  const bool double_quoted = bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos;
  const char32_t mark = double_quoted ? '"' : '\'';
  out.append(double_quoted ? "\"" : "'", true);
  append_replacing(out, text, [mark](char32_t c) -> std::string {
    if (c == mark || c == '\\') return fmt::format("\\{}", static_cast<char>(c));
    if (c == '\n') return "\\n";
    if (c == '\r') return "\\r";
    if (c == '\t') return "\\t";
    if (is_printable(c)) return "";
    return escaped_code_point(c);
  });
  out.append(double_quoted ? "\"" : "'", true);
}

void append_repr(TextBuilder& out, Budget& budget, const Value& value);

void append_items(TextBuilder& out, Budget& budget, const Values& items) {
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.append(", ", true);
    first = false;
    append_repr(out, budget, item);
  }
}

void append_dict(TextBuilder& out, Budget& budget, const DictObject& dict) {
  out.append("{", true);
  bool first = true;
  for (const auto& [key, item] : dict.entries) {
    if (!first) out.append(", ", true);
    first = false;
    append_repr(out, budget, key);
    out.append(": ", true);
    append_repr(out, budget, item);
  }
  out.append("}", true);
}

void append_namespace(TextBuilder& out, Budget& budget, const Value& value) {
  const DepthGuard depth(budget);  // a namespace can hold itself
  out.append("<Namespace {", true);
  bool first = true;
  for (const auto& [name, item] : value.name_space().attributes) {
    out.append(fmt::format("{}'{}': ", first ? "" : ", ", name), true);
    first = false;
    append_repr(out, budget, item);
  }
  out.append("}>", true);
}

void append_repr(TextBuilder& out, Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Kind::string:
      if (value.string().markup) {
        out.append("Markup(", true);
        append_string_repr(out, value.text());
        return out.append(")", true);
      }
      return append_string_repr(out, value.text());
    case Kind::undefined:
      return out.append("Undefined", true);
    default:
      return append_text(out, budget, value);
  }
}

}  // namespace

void append_text(TextBuilder& out, Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
      return;
    case Kind::none:
      return out.append("None", true);
    case Kind::boolean:
      return out.append(value.boolean() ? "True" : "False", true);
    case Kind::integer:
      return out.append(fmt::format("{}", value.integer()), true);
    case Kind::big_integer:
    case Kind::string:
      return out.append(value.text());
    case Kind::real:
      return out.append(real_to_string(value.real()), true);
    case Kind::list:
      out.append("[", true);
      append_items(out, budget, value.list().items);
      return out.append("]", true);
    case Kind::tuple:
      out.append("(", true);
      append_items(out, budget, value.list().items);
      return out.append(value.list().items.size() == 1 ? ",)" : ")", true);
    case Kind::view:
      out.append(value.list().type, true);
      out.append("([", true);
      append_items(out, budget, value.list().items);
      return out.append("])", true);
    case Kind::dict:
      return append_dict(out, budget, value.dict());
    case Kind::range: {
      const auto& range = value.range();
      return out.append(range.step == 1
                            ? fmt::format("range({}, {})", range.start, range.stop)
                            : fmt::format("range({}, {}, {})", range.start, range.stop, range.step),
                        true);
    }
    case Kind::generator:
      return out.append("<generator object>", true);
    case Kind::name_space:
      return append_namespace(out, budget, value);
    case Kind::function:
      return out.append(fmt::format("<function {}>", value.function().name), true);
    case Kind::loop:
      return out.append(fmt::format("<LoopContext {}/{}>", value.loop().index0() + 1, value.loop().length()),
                        true);
  }
}

Text to_text(Budget& budget, const Value& value) {
  if (value.is_string()) return value.text();
  TextBuilder out(budget);
  append_text(out, budget, value);
  return out.take();
}

Text to_repr(Budget& budget, const Value& value) {
  TextBuilder out(budget);
  append_repr(out, budget, value);
  return out.take();
}

std::string real_to_string(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[32];
  char* const end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);
  const auto e = scientific.find('e');
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}e{}{:02}", scientific.substr(0, e), exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  char fixed[400];
  char* const fixed_end = std::to_chars(fixed, fixed + sizeof fixed, value, std::chars_format::fixed).ptr;
  std::string result(fixed, fixed_end);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

Text escape_html(Budget& budget, const Text& text) {
  TextBuilder out(budget);
  append_replacing(out, text, [](char32_t c) -> std::string {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&#34;";
      case '\'':
        return "&#39;";
      default:
        return "";
    }
  });
  return out.take();
}

}  // namespace inferno::jinja
