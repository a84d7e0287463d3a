#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace inferno {

/// What stands at the start of a byte sequence that claims to be UTF-8.
struct Utf8Step {
  std::size_t length =
      0;               ///< bytes of the character, or of the longest part that could have begun one (>= 1)
  bool valid = false;  ///< a whole character: no overlong form, no surrogate, at most U+10FFFF
  bool incomplete = false;  ///< not valid, but more bytes could still complete it: the text ended too early
  char32_t code_point = 0;  ///< of a valid character
};

/// Looks at the first character of `text`, which is not empty.
Utf8Step utf8_step(std::string_view text);

/// Length of the longest prefix that is valid UTF-8.
std::size_t utf8_valid_prefix(std::string_view text);

void append_utf8(char32_t code_point, std::string& out);

/// U+FFFD as UTF-8: what stands for bytes that are no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace inferno
