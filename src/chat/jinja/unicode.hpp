#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "chat/jinja/text.hpp"

namespace inferno::jinja {

/// All strings here are valid UTF-8.
std::size_t count_code_points(std::string_view text);

/// A character and its bytes.
struct Character {
  char32_t code_point = 0;
  std::size_t length = 1;
};
/// The character that begins at `offset`, which is within the text and on a border.
Character character_at(std::string_view text, std::size_t offset);
/// Offset of the character before `offset` (> 0).
std::size_t previous_character(std::string_view text, std::size_t offset);
/// Offset of the code point with this index; the text's size for those beyond.
std::size_t offset_of(std::string_view text, std::size_t index);

// What Python's str.isspace, isalpha, … say of one character.
bool is_space(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_alnum(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
bool is_printable(char32_t c);
/// \w in Python's regular expressions.
bool is_word(char32_t c);

enum class Case : std::uint8_t { lower, upper, title, fold };

/// "\\x85", "\\u2028", "\\U000e0001": as Python escapes a character.
std::string escaped_code_point(char32_t c);

/// Appends one character in another case; what it becomes belongs to whoever wrote it.
void append_in_case(Text& out, const Text& source, std::size_t offset, Case to);
/// The whole text, as Python's lower(), upper(), casefold().
Text in_case(const Text& text, Case to);
/// Python's title(): every run of letters begins with a capital.
Text titled(const Text& text);
/// Python's capitalize().
Text capitalized(const Text& text);
/// Python's swapcase().
Text case_swapped(const Text& text);

}  // namespace inferno::jinja
