// "{} is {:d}".format(name, number).

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <optional>

#include "chat/jinja/format.hpp"
#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/number_format.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/unicode.hpp"
#include "platform/quote.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::jinja {
namespace {

constexpr std::int64_t kMaxWidth = 1'000'000;
constexpr std::string_view kAlignments = "<>^=";

/// Reads "*>+#010,.2f".
class SpecificationReader {
 public:
  SpecificationReader(const Budget& budget, std::string_view text) : budget_(budget), text_(text) {}

  FieldFormat read() {
    FieldFormat field;
    if (!text_.empty()) {
      const auto length = character_at(text_, 0).length;
      if (text_.size() > length && is_alignment(text_[length])) {
        field.fill = std::string(text_.substr(0, length));
        field.align = text_[length];
        text_.remove_prefix(length + 1);
      } else if (is_alignment(text_.front())) {
        field.align = take();
      }
    }
    if (!text_.empty() && std::string_view("+- ").find(text_.front()) != std::string_view::npos)
      field.sign = take();
    if (skip('#')) field.alternate = true;
    if (!text_.empty() && text_.front() == '0') {
      take();
      if (field.align == 0) {
        field.align = '=';
        field.fill.assign(1, '0');
      }
    }
    field.width = number(0);
    if (!text_.empty() && (text_.front() == ',' || text_.front() == '_')) field.grouping = take();
    if (skip('.')) field.precision = number(-1);
    if (!text_.empty()) field.type = take();
    if (!text_.empty()) fail();
    return field;
  }

 private:
  static bool is_alignment(char c) { return kAlignments.find(c) != std::string_view::npos; }
  char take() {
    const char c = text_.front();
    text_.remove_prefix(1);
    return c;
  }
  bool skip(char c) {
    const bool found = !text_.empty() && text_.front() == c;
    if (found) take();
    return found;
  }
  std::int64_t number(std::int64_t fallback) {
    std::int64_t value = fallback;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (end == text_.data()) {
      if (fallback < 0) fail();
      return fallback;
    }
    if (error != std::errc() || value > kMaxWidth || value < 0) {
      budget_.fail(fmt::format("a format has a width beyond {}", kMaxWidth));
    }
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return value;
  }
  [[noreturn]] void fail() const {
    budget_.fail(fmt::format("a format specification ends in {}, which is not understood", quote(text_)));
  }

  const Budget& budget_;
  std::string_view text_;
};

/// How places without names are numbered: not both ways in one format.
enum class Numbering : std::uint8_t { none, automatic, manual };

class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Arguments& arguments, bool markup)
      : interpreter_(interpreter), budget_(interpreter.budget()), arguments_(arguments), markup_(markup) {}

  Text run(const Text& format, int depth) {
    if (depth > 2) budget_.fail("a format is nested too deep");
    const auto& bytes = format.bytes();
    TextBuilder out(budget_);
    std::size_t position = 0;
    while (position < bytes.size()) {
      const auto brace = std::min(bytes.find_first_of("{}", position), bytes.size());
      out.append_slice(format, position, brace - position);
      if (brace == bytes.size()) break;
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        out.append_slice(format, brace, 1);
        position = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') budget_.fail("a format has a '}' without '{'; write '}}' for a brace");
      const auto end = closing(bytes, brace + 1);
      field(out, format.slice(brace + 1, end - brace - 1), depth);
      position = end + 1;
    }
    return out.take();
  }

 private:
  std::size_t closing(const std::string& bytes, std::size_t position) const {
    for (int open = 1; position < bytes.size(); ++position) {
      if (bytes[position] == '{') ++open;
      if (bytes[position] == '}' && --open == 0) return position;
    }
    budget_.fail("a format has a '{' without '}'; write '{{' for a brace");
  }

  /// What stands between the braces: name, !conversion, :specification.
  void field(TextBuilder& out, const Text& content, int depth) {
    const auto& bytes = content.bytes();
    std::size_t end = 0;
    while (end < bytes.size() && bytes[end] != ':' && bytes[end] != '!') {
      if (bytes[end] == '[') end = std::min(bytes.find(']', end), bytes.size() - 1);
      ++end;
    }
    auto value = look_up(bytes.substr(0, end));
    if (end < bytes.size() && bytes[end] == '!') {
      const char conversion = end + 1 < bytes.size() ? bytes[end + 1] : ' ';
      if (conversion != 's' && conversion != 'r' && conversion != 'a')
        budget_.fail("a format has an unknown '!' conversion");
      value = make_string(&budget_, conversion == 's' ? to_text(budget_, value) : to_repr(budget_, value));
      end += 2;
    }
    std::string specification;
    if (end < bytes.size()) {
      if (bytes[end] != ':') budget_.fail("a format has something else than ':' behind a conversion");
      specification = run(content.slice(end + 1, bytes.size() - end - 1), depth + 1).bytes();
    }
    if (!markup_) return write(out, value, specification);
    if (value.is_string() && value.string().markup) {
      if (!specification.empty()) budget_.fail("markup in a format of markup takes no specification");
      return out.append(value.text());
    }
    TextBuilder part(budget_);
    write(part, value, specification);
    out.append(escape_html(budget_, part.take()));
  }

  Value look_up(std::string_view name) {
    // As Python's string.Formatter: a number with more behind it counts as a name.
    if (const bool automatic = name.empty(); automatic || number_of(name)) {
      if (numbering_ != Numbering::none && (numbering_ == Numbering::automatic) != automatic)
        budget_.fail("a format has places with numbers and places without");
      numbering_ = automatic ? Numbering::automatic : Numbering::manual;
    }
    const auto end = std::min(name.find_first_of(".["), name.size());
    auto value = first_value(name.substr(0, end));
    for (auto rest = name.substr(end); !rest.empty();) {
      if (rest.front() == '.') {
        const auto next = std::min(rest.find_first_of(".[", 1), rest.size());
        value = interpreter_.attribute(value, rest.substr(1, next - 1));
        rest.remove_prefix(next);
      } else {
        const auto close = rest.find(']');
        if (close == std::string_view::npos) budget_.fail("a format has a '[' without ']'");
        const auto key = rest.substr(1, close - 1);
        const auto index = number_of(key);
        value = interpreter_.item(value, index ? Value(*index) : make_trusted(&budget_, key));
        rest.remove_prefix(close + 1);
      }
    }
    return value;
  }

  static std::optional<std::int64_t> number_of(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty() || value < 0)
      return std::nullopt;
    return value;
  }

  Value first_value(std::string_view name) {
    const auto index = number_of(name);
    if (name.empty() || index) {
      const auto place = index ? static_cast<std::size_t>(*index) : next_++;
      if (place >= arguments_.positional.size()) {
        budget_.fail(
            fmt::format("a format asks for value {}, {} were given", place, arguments_.positional.size()));
      }
      return arguments_.positional[place];
    }
    for (const auto& [own, value] : arguments_.named) {
      if (own == name) return value;
    }
    budget_.fail(fmt::format("a format asks for {}, which was not given", quote(name)));
  }

  void write(TextBuilder& out, const Value& value, const std::string& specification) {
    if (specification.empty()) return append_text(out, budget_, value);
    auto field = SpecificationReader(budget_, specification).read();
    if (value.is_string()) return write_text(out, value.text(), field);
    if (!value.is_integral() && !value.is(Kind::real)) {
      require_defined(budget_, value);
      budget_.fail(fmt::format("a format specification does not fit a {}", type_name(value)));
    }
    if (field.type == 'c') {
      std::string character;
      append_utf8(static_cast<char32_t>(value.is_integral() ? value.integer() & 0xFFFF : 0), character);
      return out.append(to_valid(character), false);
    }
    const bool real_type =
        field.type != 0 && std::string_view("eEfFgG%").find(field.type) != std::string_view::npos;
    const bool integer_type =
        field.type == 0 || std::string_view("bdnoxX").find(field.type) != std::string_view::npos;
    if (!real_type && !(value.is_integral() && integer_type) &&
        !(value.is(Kind::real) && (field.type == 0 || field.type == 'n'))) {
      budget_.fail(fmt::format("the format type {} does not fit a {}", quote(std::string(1, field.type)),
                               type_name(value)));
    }
    if (value.is_integral() && !real_type && field.precision >= 0)
      budget_.fail("an integer has no precision");
    const auto number = value.is_integral() && !real_type
                            ? format_integer(value.integer(), field)
                            : format_real(budget_, as_real(budget_, value), field);
    out.append(fill_number(budget_, number, field), true);
  }

  static std::string to_valid(const std::string& character) {
    return utf8_valid_prefix(character) == character.size() ? character : std::string(kReplacementCharacter);
  }

  void write_text(TextBuilder& out, const Text& text, const FieldFormat& field) {
    if ((field.type != 0 && field.type != 's') || field.sign != '-' || field.align == '=' ||
        field.alternate) {
      budget_.fail("a format specification for numbers does not fit a str");
    }
    auto size = text.size();
    if (field.precision >= 0) size = offset_of(text.bytes(), static_cast<std::size_t>(field.precision));
    const auto length =
        static_cast<std::int64_t>(count_code_points(std::string_view(text.bytes()).substr(0, size)));
    const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(field.width - length, 0));
    const auto left = field.align == '>' ? missing : field.align == '^' ? missing / 2 : 0;
    budget_.check_memory(missing);
    const Text fill(field.fill, true);
    out.append_repeated(fill, left);
    out.append_slice(text, 0, size);
    out.append_repeated(fill, missing - left);
  }

  Interpreter& interpreter_;
  Budget& budget_;
  const Arguments& arguments_;
  bool markup_;
  Numbering numbering_ = Numbering::none;
  std::size_t next_ = 0;
};

}  // namespace

Text format_braces(Interpreter& interpreter, const Text& format, const Arguments& arguments, bool markup) {
  return BraceFormatter(interpreter, arguments, markup).run(format, 1);
}

}  // namespace inferno::jinja
