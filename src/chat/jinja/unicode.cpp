#include "chat/jinja/unicode.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <string>
#include <utf8proc.h>

#include "chat/jinja/special_casing.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno::jinja {
namespace {

utf8proc_int32_t proc(char32_t c) {
  return static_cast<utf8proc_int32_t>(c);
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(proc(c));
}

bool in_categories(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  const auto own = category(c);
  return own >= first && own <= last;
}

/// Digits that are not decimal: superscripts, circled ones, …
constexpr std::pair<char32_t, char32_t> kOtherDigits[] = {
    {0xB2, 0xB3},     {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},   {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089},   {0x2460, 0x2468},   {0x2474, 0x247C},   {0x2488, 0x2490},
    {0x24EA, 0x24EA}, {0x24F5, 0x24FD},   {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},
    {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A},
};

const SpecialCase* special_case(char32_t c) {
  const auto* found =
      std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), c,
                       [](const SpecialCase& entry, char32_t value) { return entry.character < value; });
  return found != std::end(kSpecialCases) && found->character == c ? found : nullptr;
}

bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_title(c);
}

/// What stands between letters without ending a word, for the rule of the final sigma.
bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024 ||
             c == 0x2027;
  }
}

/// Whether a capital sigma at `offset` ends a word: a letter before it and none after it.
bool is_final_sigma(std::string_view text, std::size_t offset) {
  auto before = offset;
  bool letter_before = false;
  while (before > 0) {
    before = previous_character(text, before);
    const auto c = character_at(text, before).code_point;
    if (is_case_ignorable(c)) continue;
    letter_before = is_cased(c);
    break;
  }
  if (!letter_before) return false;
  for (auto after = offset + 2; after < text.size();) {
    const auto [c, length] = character_at(text, after);
    if (!is_case_ignorable(c)) return !is_cased(c);
    after += length;
  }
  return true;
}

void append_folded(char32_t c, std::string& out) {
  utf8proc_int32_t buffer[8];
  const auto count = utf8proc_decompose_char(proc(c), buffer, 8, UTF8PROC_CASEFOLD, nullptr);
  for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(static_cast<char32_t>(buffer[i]), out);
}

}  // namespace

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

Character character_at(std::string_view text, std::size_t offset) {
  const auto byte = static_cast<unsigned char>(text[offset]);
  if (byte < 0x80) return {byte, 1};
  const auto step = utf8_step(text.substr(offset));
  return {step.valid ? step.code_point : char32_t{0xFFFD}, step.length};
}

std::size_t previous_character(std::string_view text, std::size_t offset) {
  do {
    --offset;
  } while (offset > 0 && (static_cast<unsigned char>(text[offset]) & 0xC0U) == 0x80U);
  return offset;
}

std::size_t offset_of(std::string_view text, std::size_t index) {
  std::size_t offset = 0;
  while (index > 0 && offset < text.size()) {
    offset += character_at(text, offset).length;
    --index;
  }
  return offset;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_alpha(char32_t c) {
  return in_categories(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}

bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  return is_decimal(c) ||
         std::any_of(std::begin(kOtherDigits), std::end(kOtherDigits),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

bool is_numeric(char32_t c) {
  return in_categories(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_alnum(char32_t c) {
  return is_alpha(c) || is_numeric(c);
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF);
}

bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || (c >= 0x2170 && c <= 0x217F) ||
         (c >= 0x24D0 && c <= 0x24E9);
}

bool is_title(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const auto own = category(c);
  return own != UTF8PROC_CATEGORY_CN && !in_categories(c, UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_CO);
}

bool is_word(char32_t c) {
  return c == '_' || is_alnum(c);
}

std::string escaped_code_point(char32_t c) {
  const auto code = static_cast<std::uint32_t>(c);
  if (code < 0x100) return fmt::format("\\x{:02x}", code);
  return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
}

void append_in_case(Text& out, const Text& source, std::size_t offset, Case to) {
  const auto& bytes = source.bytes();
  const auto c = character_at(bytes, offset).code_point;
  std::string encoded;
  if (const auto* special = special_case(c); special != nullptr && (to == Case::upper || to == Case::title)) {
    for (const auto character : to == Case::upper ? special->upper : special->title) {
      append_utf8(character, encoded);
    }
  } else if (to == Case::fold) {
    append_folded(c, encoded);
  } else if (to == Case::lower && c == 0x130) {
    encoded = "i\u0307";
  } else if (to == Case::lower && c == 0x3A3) {
    append_utf8(is_final_sigma(bytes, offset) ? 0x3C2 : 0x3C3, encoded);
  } else if (to == Case::lower) {
    append_utf8(static_cast<char32_t>(utf8proc_tolower(proc(c))), encoded);
  } else {
    append_utf8(
        static_cast<char32_t>(to == Case::upper ? utf8proc_toupper(proc(c)) : utf8proc_totitle(proc(c))),
        encoded);
  }
  out.append(encoded, source.trusted_at(offset));
}

Text in_case(const Text& text, Case to) {
  Text result;
  const auto& bytes = text.bytes();
  for (std::size_t offset = 0; offset < bytes.size(); offset += character_at(bytes, offset).length) {
    append_in_case(result, text, offset, to);
  }
  return result;
}

Text titled(const Text& text) {
  Text result;
  const auto& bytes = text.bytes();
  bool in_word = false;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    append_in_case(result, text, offset, in_word ? Case::lower : Case::title);
    in_word = is_cased(c);
    offset += length;
  }
  return result;
}

Text capitalized(const Text& text) {
  Text result;
  const auto& bytes = text.bytes();
  for (std::size_t offset = 0; offset < bytes.size(); offset += character_at(bytes, offset).length) {
    append_in_case(result, text, offset, offset == 0 ? Case::title : Case::lower);
  }
  return result;
}

Text case_swapped(const Text& text) {
  Text result;
  const auto& bytes = text.bytes();
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto [c, length] = character_at(bytes, offset);
    if (is_upper(c)) {
      append_in_case(result, text, offset, Case::lower);
    } else if (is_lower(c)) {
      append_in_case(result, text, offset, Case::upper);
    } else {
      result.append_slice(text, offset, length);
    }
    offset += length;
  }
  return result;
}

}  // namespace inferno::jinja
