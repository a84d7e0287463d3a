#include "grammar/json_text.hpp"

#include <algorithm>

namespace inferno::grammar {
namespace {

using Kind = TextStep::Kind;
using Phase = TextScan::Phase;

constexpr TextScan kContent{Phase::content};

TextStep character(char32_t c) {
  return {.kind = Kind::character, .next = kContent, .first = c, .last = c};
}

/// `value` are the bits so far of a character of `length` bytes, of which `missing` are to come.
TextStep partial_utf8(std::uint32_t value, std::uint32_t missing, std::uint32_t length) {
  static constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  static constexpr char32_t kMost[] = {0, 0, 0x7FF, 0xFFFF, 0x10FFFF};
  const auto first = std::max<char32_t>(value << (6 * missing), kLeast[length]);
  const auto last = std::min<char32_t>((value << (6 * missing)) + (1U << (6 * missing)) - 1, kMost[length]);
  if (first > last || (first >= 0xD800 && last <= 0xDFFF)) return {};
  if (missing == 0) return character(first);
  return {.kind = Kind::partial,
          .next = TextScan(Phase::utf8, value, missing, length - 1),
          .first = first,
          .last = last};
}

TextStep lead_byte(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return partial_utf8(byte & 0x1FU, 1, 2);
  if (byte >= 0xE0 && byte <= 0xEF) return partial_utf8(byte & 0x0FU, 2, 3);
  if (byte >= 0xF0 && byte <= 0xF4) return partial_utf8(byte & 0x07U, 3, 4);
  return {};
}

int hex_digit(std::uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
  if (byte >= 'A' && byte <= 'F') return byte - 'A' + 10;
  return -1;
}

TextStep escaped(TextForm form, std::uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
      return character(byte);
    case '/':
      return form == TextForm::json ? character('/') : TextStep{};
    case 'b':
      return character('\b');
    case 'f':
      return character('\f');
    case 'n':
      return character('\n');
    case 'r':
      return character('\r');
    case 't':
      return character('\t');
    case 'u':
      return {.kind = Kind::partial,
              .next = TextScan(Phase::hex),
              .first = 0,
              .last = form == TextForm::json ? 0x10FFFFU : 0x1FU};
    default:
      return {};
  }
}

TextStep hex(TextForm form, TextScan at, std::uint8_t byte) {
  const auto digit = hex_digit(byte);
  if (digit < 0) return {};
  const auto count = at.count() + 1;
  const auto value = at.value() * 16 + static_cast<std::uint32_t>(digit);
  const auto open = 4 * (4 - count);
  const char32_t first = value << open;
  char32_t last = first + (1U << open) - 1;
  if (form == TextForm::json_canonical) last = std::min<char32_t>(last, 0x1F);
  if (first > last || (first >= 0xDC00 && last <= 0xDFFF)) return {};
  if (count < 4)
    return {.kind = Kind::partial, .next = TextScan(Phase::hex, value, count), .first = first, .last = last};
  if (first < 0xD800 || first > 0xDBFF) return character(first);
  const char32_t pair = 0x10000 + ((first - 0xD800) << 10U);
  return {.kind = Kind::partial,
          .next = TextScan(Phase::low_escape, first - 0xD800),
          .first = pair,
          .last = pair + 0x3FF};
}

/// The second half of a surrogate pair: `value` is the high half, with the digits so far below it.
TextStep low_hex(TextScan at, std::uint8_t byte) {
  const auto digit = hex_digit(byte);
  if (digit < 0) return {};
  const auto count = at.count() + 1;
  if (count == 1) {
    if (digit != 0xD) return {};
    return {.kind = Kind::partial,
            .next = TextScan(Phase::low_hex, at.value(), 1),
            .first = 0x10000,
            .last = 0x10FFFF};
  }
  if (count == 2 && digit < 0xC) return {};
  // Two bits of the second digit, four of each other.
  const auto bits = count == 2 ? static_cast<std::uint32_t>(digit) - 0xC : static_cast<std::uint32_t>(digit);
  const auto value = at.value() << (count == 2 ? 2U : 4U) | bits;
  if (count == 4) return character(0x10000 + value);
  return {.kind = Kind::partial,
          .next = TextScan(Phase::low_hex, value, count),
          .first = 0x10000,
          .last = 0x10FFFF};
}

TextStep content(TextForm form, std::uint8_t byte) {
  if (byte >= 0x80) return lead_byte(byte);
  if (form == TextForm::raw) return character(byte);
  if (byte == '"') return {.kind = Kind::closed, .next = TextScan(Phase::closed)};
  if (byte == '\\') return {.kind = Kind::escape, .next = TextScan(Phase::escape)};
  return byte < 0x20 ? TextStep{} : character(byte);
}

}  // namespace

TextStep scan_text(TextForm form, TextScan at, std::uint8_t byte) {
  switch (at.phase()) {
    case Phase::open:
      return byte == '"' ? TextStep{.kind = Kind::opened, .next = kContent} : TextStep{};
    case Phase::content:
      return content(form, byte);
    case Phase::utf8:
      if ((byte & 0xC0U) != 0x80U) return {};
      return partial_utf8(at.value() << 6U | (byte & 0x3FU), at.count() - 1, at.length() + 1);
    case Phase::escape:
      return escaped(form, byte);
    case Phase::hex:
      return hex(form, at, byte);
    case Phase::low_escape:
      if (byte != '\\') return {};
      return {.kind = Kind::partial,
              .next = TextScan(Phase::low_u, at.value()),
              .first = 0x10000,
              .last = 0x10FFFF};
    case Phase::low_u:
      if (byte != 'u') return {};
      return {.kind = Kind::partial,
              .next = TextScan(Phase::low_hex, at.value()),
              .first = 0x10000,
              .last = 0x10FFFF};
    case Phase::low_hex:
      return low_hex(at, byte);
    case Phase::closed:
      break;
  }
  return {};
}

}  // namespace inferno::grammar
