#include "server/api/json_text.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <fmt/format.h>
#include <iterator>

#include "tokenizer/utf8.hpp"

namespace inferno::api {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Bytes that stand for themselves: no controls, quotes, backslashes, nothing beyond ASCII.
constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (std::size_t c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}();

void append_escape(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4U];
      out += kHex[static_cast<unsigned char>(c) & 15U];
  }
}

template <typename Values>
void append_list(std::string& out, const Values& values) {
  out += '[';
  bool first = true;
  for (const auto value : values) {
    if (!first) out += ',';
    first = false;
    append_json_integer(out, value);
  }
  out += ']';
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t at = 0;
  while (at < text.size()) {
    auto end = at;
    while (end < text.size() && kPlain[static_cast<unsigned char>(text[end])]) ++end;
    out.append(text.substr(at, end - at));
    at = end;
    if (at == text.size()) break;
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      append_escape(out, text[at++]);
      continue;
    }
    const auto step = utf8_step(text.substr(at));
    out.append(step.valid ? text.substr(at, step.length) : kReplacement);
    at += step.length;
  }
  out += '"';
}

void append_json_string_or_null(std::string& out, std::string_view text) {
  if (text.empty()) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
}

void append_json_integer(std::string& out, std::int64_t value) {
  const fmt::format_int digits(value);
  out.append(digits.data(), digits.size());
}

void append_json_float(std::string& out, float value, std::string_view otherwise) {
  if (!std::isfinite(value)) {
    out += otherwise;
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

void append_json_bytes(std::string& out, std::string_view bytes) {
  append_list(out, std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

void append_json_ids(std::string& out, std::span<const std::int32_t> ids) {
  append_list(out, ids);
}

}  // namespace inferno::api
