#include "tokenizer/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace inferno {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t at) {
  return static_cast<std::uint8_t>(text[at]);
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const std::uint8_t lead = byte_at(text, 0);
  if (lead < 0x80) return {.length = 1, .valid = true, .code_point = lead};

  // The second byte's range is what excludes overlong forms, surrogates and values above U+10FFFF
  // (table 3-7 of the Unicode standard); later bytes are always 80..BF.
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  char32_t code_point = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code_point = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code_point = lead & 0x0FU;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code_point = lead & 0x07U;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {.length = 1};
  }
  for (std::size_t at = 1; at < length; ++at) {
    if (at == text.size()) return {.length = at, .incomplete = true};
    const std::uint8_t byte = byte_at(text, at);
    if (byte < low || byte > high) return {.length = at};
    code_point = (code_point << 6U) | (byte & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {.length = length, .valid = true, .code_point = code_point};
}

std::size_t utf8_valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (at + sizeof(std::uint64_t) <= text.size()) {  // eight ASCII bytes at a time: most of most texts
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080U) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.valid) break;
    at += step.length;
  }
  return at;
}

void append_utf8(char32_t code_point, std::string& out) {
  const auto put = [&out](char32_t byte) {
    out.push_back(static_cast<char>(static_cast<std::uint8_t>(byte)));
  };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | (code_point >> 6U));
    put(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    put(0xE0U | (code_point >> 12U));
    put(0x80U | ((code_point >> 6U) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  } else {
    put(0xF0U | (code_point >> 18U));
    put(0x80U | ((code_point >> 12U) & 0x3FU));
    put(0x80U | ((code_point >> 6U) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  }
}

}  // namespace inferno
