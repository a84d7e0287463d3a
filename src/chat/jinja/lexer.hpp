#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace inferno::jinja {

enum class TokenType : std::uint8_t {
  data,  ///< text between tags, as it is printed
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,   ///< value without quotes, escapes resolved
  integer,  ///< digits as Python's int() takes them with base 0, without underscores
  real,
  op,  ///< + - / // * % ** ~ [ ] ( ) { } == != > >= < <= = . : | , ;
  end,
};

struct Token {
  TokenType type = TokenType::end;
  std::uint32_t line = 1;
  std::string text;
};

/// Cuts a template into tokens as Jinja does with trim_blocks and lstrip_blocks: the first newline after a
/// block is dropped, blanks before a block at the beginning of a line, too. Comments are gone, raw blocks are
/// data. `source` is valid UTF-8. Throws TemplateError.
std::vector<Token> tokenize_template(std::string_view source);

/// A token as messages name it.
std::string describe(const Token& token);

}  // namespace inferno::jinja
