#include "platform/quote.hpp"

#include <cstdint>
#include <fmt/format.h>

namespace inferno {
namespace {

struct Decoded {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  ///< 0: not UTF-8
};

Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || length > text.size()) return {};
  std::uint32_t code = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || (code >= 0xD800 && code <= 0xDFFF) || code > 0x10FFFF) return {};
  return {code, length};
}

/// Controls, and what a terminal shows as nothing or as a change of direction or line.
bool is_unprintable(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xAD || code == 0x61C ||
         (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2060 && code <= 0x206F) || code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB) ||
         (code >= 0xE0000 && code <= 0xE0FFF);
}

/// Up to `limit` bytes of it escaped; false if that is not all.
bool escape(std::string_view text, std::size_t limit, bool quoted, std::string& result) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Decoded next = decode(text.substr(at));
    std::string piece;
    if (next.bytes == 0) {
      piece = fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    } else if (next.code == '\n') {
      piece = "\\n";
    } else if (next.code == '\r') {
      piece = "\\r";
    } else if (next.code == '\t') {
      piece = "\\t";
    } else if (quoted && (next.code == '"' || next.code == '\\')) {
      piece = {'\\', static_cast<char>(next.code)};
    } else if (is_unprintable(next.code)) {
      piece = next.bytes == 1 ? fmt::format("\\x{:02x}", next.code) : fmt::format("\\u{{{:x}}}", next.code);
    } else {
      piece = text.substr(at, next.bytes);
    }
    if (result.size() + piece.size() > limit) return false;
    result += piece;
    at += next.bytes == 0 ? 1 : next.bytes;
  }
  return true;
}

}  // namespace

std::string quote(std::string_view text, std::size_t limit) {
  std::string escaped;
  const bool whole = escape(text, limit, true, escaped);
  return whole ? fmt::format("\"{}\"", escaped) : fmt::format("\"{}...\" ({} bytes)", escaped, text.size());
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string escaped;
  const bool whole = escape(text, limit, false, escaped);
  return whole ? escaped : fmt::format("{}... ({} bytes)", escaped, text.size());
}

}  // namespace inferno
