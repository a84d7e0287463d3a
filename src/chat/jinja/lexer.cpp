#include "chat/jinja/lexer.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>

#include "chat/jinja/budget.hpp"
#include "chat/jinja/unicode.hpp"
#include "platform/quote.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::jinja {
namespace {

constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                           "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                           ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

/// All line ends as \n, and without the one at the end.
std::string normalized(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      result += source[i];
    } else {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)), text_(source_) {}

  std::vector<Token> run() {
    while (position_ < text_.size()) root();
    add(TokenType::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& message) const { template_error(line_, message); }

  void add(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }
  bool at(std::string_view expected, std::size_t position) const {
    return text_.substr(position, expected.size()) == expected;
  }
  std::size_t skip_space(std::size_t position) const {
    while (position < text_.size()) {
      const auto [c, length] = character_at(text_, position);
      if (!is_space(c)) break;
      position += length;
    }
    return position;
  }
  /// Goes on at `position`, counting lines.
  void advance_to(std::size_t position) {
    const auto passed = text_.substr(position_, position - position_);
    line_ += static_cast<std::uint32_t>(std::count(passed.begin(), passed.end(), '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    position_ = position;
  }

  /// Text before a tag at `tag`, without what its sign or lstrip_blocks takes away.
  std::string_view stripped(std::size_t tag, char sign, bool is_variable) const {
    auto data = text_.substr(position_, tag - position_);
    if (sign == '-') {
      while (!data.empty()) {
        const auto last = previous_character(data, data.size());
        if (!is_space(character_at(data, last).code_point)) break;
        data = data.substr(0, last);
      }
    } else if (sign != '+' && !is_variable) {
      const auto newline = data.rfind('\n');
      const auto line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      if ((line_begin > 0 || line_starting_) && skip_space(position_ + line_begin) >= tag) {
        data = data.substr(0, line_begin);
      }
    }
    return data;
  }

  void add_data(std::string_view data) {
    if (!data.empty()) add(TokenType::data, std::string(data));
  }

  char sign_at(std::size_t position) const {
    return position < text_.size() && (text_[position] == '-' || text_[position] == '+') ? text_[position]
                                                                                         : ' ';
  }

  /// The end of a block's or comment's closing part at `position` (with its sign): where text goes on;
  /// npos if none is there.
  std::size_t closing(std::string_view close, std::size_t position) const {
    if (at("-", position) && at(close, position + 1)) return skip_space(position + 1 + close.size());
    if (at("+", position) && at(close, position + 1)) return position + 1 + close.size();
    if (!at(close, position)) return std::string_view::npos;
    position += close.size();
    return at("\n", position) ? position + 1 : position;
  }

  void root() {
    auto tag = position_;
    while (tag < text_.size() && !(text_[tag] == '{' && (at("{{", tag) || at("{%", tag) || at("{#", tag))))
      ++tag;
    if (tag >= text_.size()) {
      add_data(text_.substr(position_));
      advance_to(text_.size());
      return;
    }
    const char kind = text_[tag + 1];
    const char sign = sign_at(tag + 2);
    const auto after = tag + 2 + (sign == ' ' ? 0U : 1U);
    add_data(stripped(tag, sign, kind == '{'));
    if (kind == '%') {
      if (const auto body = raw_begin(after); body != std::string_view::npos) {
        advance_to(body);
        raw();
        return;
      }
    }
    advance_to(tag);
    const auto begin_line = line_;
    advance_to(after);
    if (kind == '#') {
      comment(begin_line);
    } else {
      add(kind == '{' ? TokenType::variable_begin : TokenType::block_begin, "");
      expression_tokens(kind == '{');
    }
  }

  /// If the block that begins before `position` is `raw`: where its content begins.
  std::size_t raw_begin(std::size_t position) const {
    position = skip_space(position);
    if (!at("raw", position)) return std::string_view::npos;
    position = skip_space(position + 3);
    if (at("-%}", position)) return skip_space(position + 3);
    return at("%}", position) ? position + 2 : std::string_view::npos;
  }

  void raw() {
    for (auto tag = text_.find("{%", position_); tag != std::string_view::npos;
         tag = text_.find("{%", tag + 1)) {
      const char sign = sign_at(tag + 2);
      auto position = skip_space(tag + 2 + (sign == ' ' ? 0U : 1U));
      if (!at("endraw", position)) continue;
      position = closing("%}", skip_space(position + 6));
      if (position == std::string_view::npos) continue;
      add_data(stripped(tag, sign, false));
      advance_to(position);
      return;
    }
    // Jinja misses the end of a block only if something follows its beginning.
    if (position_ < text_.size()) fail("the raw block has no end; expected {% endraw %}");
  }

  void comment(std::uint32_t begin_line) {
    for (auto position = position_; position < text_.size(); ++position) {
      const auto end = closing("#}", position);
      if (end == std::string_view::npos) continue;
      advance_to(end);
      return;
    }
    if (position_ < text_.size()) template_error(begin_line, "the comment has no end; expected #}");
  }

  /// Tokens up to the end of the tag.
  void expression_tokens(bool is_variable) {
    std::vector<char> open;
    while (position_ < text_.size()) {
      if (open.empty() && tag_end(is_variable)) return;
      const auto [c, length] = character_at(text_, position_);
      if (is_space(c)) {
        advance_to(skip_space(position_));
      } else if (c < 0x80 && is_ascii_digit(static_cast<char>(c))) {
        number();
      } else if (is_word(c)) {
        name();
      } else if (c == '"' || c == '\'') {
        string();
      } else {
        punctuation(open);
      }
    }
    fail(fmt::format("the template ends inside a tag; expected {}", is_variable ? "}}" : "%}"));
  }

  bool tag_end(bool is_variable) {
    std::size_t end = std::string_view::npos;
    if (!is_variable) {
      end = closing("%}", position_);
    } else if (at("-}}", position_)) {
      end = skip_space(position_ + 3);
    } else if (at("}}", position_)) {
      end = position_ + 2;
    }
    if (end == std::string_view::npos) return false;
    add(is_variable ? TokenType::variable_end : TokenType::block_end, "");
    advance_to(end);
    return true;
  }

  void punctuation(std::vector<char>& open) {
    for (const auto op : kOperators) {
      if (!at(op, position_)) continue;
      const char c = op.front();
      if (c == '(') open.push_back(')');
      if (c == '[') open.push_back(']');
      if (c == '{') open.push_back('}');
      if (c == ')' || c == ']' || c == '}') {
        if (open.empty()) fail(fmt::format("unexpected '{}'", c));
        if (open.back() != c) fail(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
        open.pop_back();
      }
      add(TokenType::op, std::string(op));
      advance_to(position_ + op.size());
      return;
    }
    fail(fmt::format("unexpected character {}",
                     quote(text_.substr(position_, character_at(text_, position_).length))));
  }

  /// Digits with single underscores between them: their end, or `position` if there are none.
  template <typename Predicate>
  std::size_t digits(std::size_t position, Predicate&& is_one) const {
    auto end = position;
    while (position < text_.size() && is_one(text_[position])) {
      end = ++position;
      if (position < text_.size() && text_[position] == '_') ++position;
    }
    return end;
  }

  void add_number(TokenType type, std::size_t end) {
    std::string value(text_.substr(position_, end - position_));
    value.erase(std::remove(value.begin(), value.end(), '_'), value.end());
    add(type, std::move(value));
    advance_to(end);
  }

  void number() {
    if (position_ == 0 || text_[position_ - 1] != '.') {
      auto end = digits(position_, is_ascii_digit);
      bool is_real = false;
      if (end + 1 < text_.size() && text_[end] == '.' && is_ascii_digit(text_[end + 1])) {
        end = digits(end + 1, is_ascii_digit);
        is_real = true;
      }
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        const auto sign =
            end + 1 < text_.size() && (text_[end + 1] == '+' || text_[end + 1] == '-') ? 1U : 0U;
        const auto exponent = digits(end + 1 + sign, is_ascii_digit);
        if (exponent > end + 1 + sign) {
          end = exponent;
          is_real = true;
        }
      }
      if (is_real) return add_number(TokenType::real, end);
    }
    const auto prefixed = [this](std::string_view letters, auto&& is_one) -> std::size_t {
      if (text_[position_] != '0' || position_ + 1 >= text_.size()) return 0;
      if (letters.find(text_[position_ + 1]) == std::string_view::npos) return 0;
      const auto first = position_ + 2 + (at("_", position_ + 2) ? 1U : 0U);
      const auto end = digits(first, is_one);
      return end > first ? end : 0;
    };
    auto end = prefixed("bB", [](char c) { return c == '0' || c == '1'; });
    if (end == 0) end = prefixed("oO", [](char c) { return c >= '0' && c <= '7'; });
    if (end == 0) {
      end = prefixed(
          "xX", [](char c) { return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); });
    }
    if (end == 0 && text_[position_] != '0') end = digits(position_, is_ascii_digit);
    if (end == 0) end = digits(position_, [](char c) { return c == '0'; });
    add_number(TokenType::integer, end);
  }

  void name() {
    auto end = position_;
    if (is_numeric(character_at(text_, position_).code_point)) {
      fail(fmt::format("invalid character in an identifier: {}",
                       quote(text_.substr(position_, character_at(text_, position_).length))));
    }
    while (end < text_.size()) {
      const auto [c, length] = character_at(text_, end);
      if (!is_word(c)) break;
      end += length;
    }
    add(TokenType::name, std::string(text_.substr(position_, end - position_)));
    advance_to(end);
  }

  void string() {
    const char mark = text_[position_];
    auto end = position_ + 1;
    while (end < text_.size() && text_[end] != mark) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail(fmt::format("the string that begins with {} has no end", mark));
    add(TokenType::string, unescaped(text_.substr(position_ + 1, end - position_ - 1)));
    advance_to(end + 1);
  }

  std::string unescaped(std::string_view raw) const {
    std::string result;
    for (std::size_t i = 0; i < raw.size();) {
      if (raw[i] != '\\') {
        result += raw[i++];
        continue;
      }
      ++i;  // a string cannot end with a backslash: it would hide the quotation mark
      i = escape(raw, i, result);
    }
    return result;
  }

  /// Resolves the escape whose letter stands at `i`; returns where the string goes on.
  std::size_t escape(std::string_view raw, std::size_t i, std::string& result) const {
    constexpr std::string_view kLetters = "\\'\"abfnrtv";
    constexpr std::string_view kValues = "\\'\"\a\b\f\n\r\t\v";
    const char letter = raw[i];
    if (const auto place = kLetters.find(letter); place != std::string_view::npos) {
      result += kValues[place];
      return i + 1;
    }
    if (letter == '\n') return i + 1;
    if (letter >= '0' && letter <= '7') {
      const auto* const end =
          std::find_if_not(raw.begin() + static_cast<std::ptrdiff_t>(i),
                           raw.begin() + static_cast<std::ptrdiff_t>(std::min(raw.size(), i + 3)),
                           [](char c) { return c >= '0' && c <= '7'; });
      return numeric(raw, i, static_cast<std::size_t>(end - raw.begin()) - i, 8, result);
    }
    if (letter == 'x' || letter == 'u' || letter == 'U') {
      return numeric(raw, i + 1, letter == 'x' ? 2 : letter == 'u' ? 4 : 8, 16, result);
    }
    if (letter == 'N') fail("\\N{...} is not supported in strings; write the character itself");
    result += '\\';
    const auto [c, length] = character_at(raw, i);
    // Jinja takes the character for an escape of its own here and undoes only the backslash.
    if (c >= 0x80) {
      result += escaped_code_point(c).substr(1);
    } else {
      result += letter;
    }
    return i + length;
  }

  std::size_t numeric(std::string_view raw, std::size_t first, std::size_t count, int base,
                      std::string& result) const {
    const auto part = raw.substr(std::min(first, raw.size()), count);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value, base);
    if (part.size() < count || error != std::errc() || end != part.data() + part.size()) {
      fail(fmt::format("a string has an escape that is cut off; expected {} digits", count));
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      fail(fmt::format("a string has the escape of U+{:04X}, which is no character", value));
    }
    append_utf8(static_cast<char32_t>(value), result);
    return first + count;
  }

  std::string source_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::uint32_t line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) {
  return Lexer(source).run();
}

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::data:
      return "text";
    case TokenType::variable_begin:
      return "{{";
    case TokenType::variable_end:
      return "the end of the expression (}})";
    case TokenType::block_begin:
      return "{%";
    case TokenType::block_end:
      return "the end of the block (%})";
    case TokenType::end:
      return "the end of the template";
    case TokenType::string:
      return "the string " + quote(token.text, 40);
    default:
      return quote(token.text, 40);
  }
}

}  // namespace inferno::jinja
