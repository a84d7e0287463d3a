// "%s is %d" % (name, number).

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "chat/jinja/format.hpp"
#include "chat/jinja/number_format.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/print.hpp"
#include "chat/jinja/unicode.hpp"
#include "platform/quote.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::jinja {
namespace {

constexpr std::int64_t kMaxWidth = 1'000'000;

class PercentFormatter {
 public:
  PercentFormatter(Budget& budget, const Text& format, const Value& values, bool markup)
      : budget_(budget),
        format_(format),
        bytes_(format.bytes()),
        values_(values),
        markup_(markup),
        out_(budget) {}

  Text run() {
    while (position_ < bytes_.size()) {
      const auto percent = std::min(bytes_.find('%', position_), bytes_.size());
      out_.append_slice(format_, position_, percent - position_);
      position_ = percent;
      if (position_ < bytes_.size()) conversion();
    }
    if (!is_mapping() && next_ < given()) budget_.fail("not all values of a % format are used");
    return out_.take();
  }

 private:
  bool is_mapping() const {
    return values_.is(Kind::dict) || values_.is(Kind::list) || values_.is(Kind::range) ||
           values_.is_undefined();
  }
  std::size_t given() const { return values_.is(Kind::tuple) ? values_.list().items.size() : 1; }

  Value next_value() {
    if (next_ >= given()) budget_.fail("a % format has more places than values");
    const auto place = next_++;
    return values_.is(Kind::tuple) ? values_.list().items[place] : values_;
  }

  char letter() const {
    if (position_ >= bytes_.size()) budget_.fail("a % format ends inside of a place");
    return bytes_[position_];
  }

  std::int64_t number() {
    if (letter() == '*') {
      ++position_;
      const auto value = next_value();
      if (!value.is_integral()) budget_.fail("* in a % format needs an integer");
      return std::clamp(value.integer(), -kMaxWidth, kMaxWidth);
    }
    std::int64_t value = 0;
    while (letter() >= '0' && letter() <= '9') {
      value = std::min(value * 10 + (bytes_[position_] - '0'), kMaxWidth + 1);
      ++position_;
    }
    if (value > kMaxWidth) budget_.fail(fmt::format("a % format has a width beyond {}", kMaxWidth));
    return value;
  }

  /// From the '%' to the letter of the type.
  void conversion() {
    const auto percent = position_++;
    std::optional<Value> keyed;
    if (letter() == '(') keyed = named_value();
    FieldFormat field;
    bool zero = false;
    field.align = '>';
    for (bool is_flag = true; is_flag;) {
      switch (letter()) {
        case '-':
          field.align = '<';
          break;
        case '+':
          field.sign = '+';
          break;
        case ' ':
          if (field.sign != '+') field.sign = ' ';
          break;
        case '#':
          field.alternate = true;
          break;
        case '0':
          zero = true;
          break;
        default:
          is_flag = false;
      }
      if (is_flag) ++position_;
    }
    field.width = number();
    if (field.width < 0) {
      field.align = '<';
      field.width = -field.width;
    }
    if (letter() == '.') {
      ++position_;
      field.precision = std::max<std::int64_t>(number(), 0);
    }
    while (letter() == 'h' || letter() == 'l' || letter() == 'L') ++position_;
    field.type = letter();
    ++position_;
    if (field.type == '%') return out_.append("%", format_.trusted_at(percent));
    if (zero && field.align != '<' && std::string_view("sra").find(field.type) == std::string_view::npos) {
      field.align = '=';
      field.fill.assign(1, '0');
    }
    write(field, keyed ? *keyed : next_value());
  }

  Value named_value() {
    const auto end = bytes_.find(')', position_);
    if (end == std::string::npos) budget_.fail("a % format has a name without ')'");
    const auto name = bytes_.substr(position_ + 1, end - position_ - 1);
    if (!values_.is(Kind::dict)) budget_.fail("a % format with names needs a dict");
    const auto* value = values_.dict().find(std::string_view(name));
    if (value == nullptr)
      budget_.fail(fmt::format("a % format names {}, which the dict does not have", quote(name)));
    position_ = end + 1;
    return *value;
  }

  void write(FieldFormat& field, const Value& value) {
    switch (field.type) {
      case 's': {
        const bool is_markup = value.is_string() && value.string().markup;
        return write_text(field, escaped(to_text(budget_, value), is_markup));
      }
      case 'r':
      case 'a':
        return write_text(field, escaped(to_repr(budget_, value), false));
      case 'c':
        return write_text(field, one_character(value));
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        return write_integer(field, value);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (field.precision < 0) field.precision = 6;
        return write_number(field, format_real(budget_, as_real(budget_, value), field));
      default:
        budget_.fail(fmt::format("a % format has the unknown type {}", quote(std::string(1, field.type))));
    }
  }

  Text escaped(const Text& text, bool is_markup) const {
    return markup_ && !is_markup ? escape_html(budget_, text) : text;
  }

  void write_integer(FieldFormat& field, const Value& value) {
    std::int64_t whole = 0;
    const bool decimal = field.type == 'd' || field.type == 'i' || field.type == 'u';
    if (value.is_integral()) {
      whole = value.integer();
    } else if (decimal && value.is(Kind::real) && std::fabs(value.real()) < 9.2e18) {
      whole = static_cast<std::int64_t>(value.real());
    } else {
      require_defined(budget_, value);
      budget_.fail(fmt::format("%{} needs an integer, found a {}", field.type, type_name(value)));
    }
    auto number = format_integer(whole, field);
    if (field.precision > kMaxWidth) budget_.fail("a % format has a precision that is too large");
    const auto least = static_cast<std::size_t>(std::max<std::int64_t>(field.precision, 0));
    if (number.digits.size() < least) number.digits.insert(0, least - number.digits.size(), '0');
    write_number(field, number);
  }

  void write_number(const FieldFormat& field, const NumberText& number) {
    out_.append(fill_number(budget_, number, field), true);
  }

  /// A character made of a number: nobody wrote it as it stands, so it is not trusted.
  Text one_character(const Value& value) const {
    if (value.is_string() && value.string().length == 1) return value.text();
    if (!value.is_integral() || value.integer() < 0 || value.integer() > 0x10FFFF ||
        (value.integer() >= 0xD800 && value.integer() <= 0xDFFF)) {
      budget_.fail("%c needs one character or its number");
    }
    std::string bytes;
    append_utf8(static_cast<char32_t>(value.integer()), bytes);
    return {bytes, false};
  }

  void write_text(const FieldFormat& field, const Text& text) {
    auto size = text.size();
    if (field.precision >= 0) size = offset_of(text.bytes(), static_cast<std::size_t>(field.precision));
    const auto length =
        static_cast<std::int64_t>(count_code_points(std::string_view(text.bytes()).substr(0, size)));
    const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(field.width - length, 0));
    budget_.check_memory(missing);
    const std::string blanks(missing, ' ');
    if (field.align != '<') out_.append(blanks, true);
    out_.append_slice(text, 0, size);
    if (field.align == '<') out_.append(blanks, true);
  }

  Budget& budget_;
  const Text& format_;
  const std::string& bytes_;
  const Value& values_;
  bool markup_;
  TextBuilder out_;
  std::size_t position_ = 0;
  std::size_t next_ = 0;
};

}  // namespace

Text format_percent(Budget& budget, const Text& format, const Value& values, bool markup) {
  return PercentFormatter(budget, format, values, markup).run();
}

}  // namespace inferno::jinja
