#include "tokenizer/normalizer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fmt/core.h>
#include <memory>
#include <utf8proc.h>
#include <vector>

#include <inferno/error.hpp>

#include "tokenizer/utf8.hpp"

namespace inferno {
namespace {

// UTF8PROC_STABLE respects the composition exclusions. Compatibility mappings (UTF8PROC_COMPAT) stay off.
constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);

/// The longest canonical decomposition has 4 code points; twice that is checked, not hoped for.
constexpr std::size_t kLongestDecomposition = 8;

/// The code point before the first Hangul trailing consonant, from which those are counted.
constexpr utf8proc_int32_t kBeforeTrailingConsonants = 0x11A7;

[[noreturn]] void fail(utf8proc_ssize_t code) {
  throw Error(fmt::format("Unicode normalization failed: {}", utf8proc_errmsg(code)));
}

std::vector<utf8proc_int32_t> decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> decomposed;
  decomposed.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    if (step.code_point < 0xC0) {  // nothing below decomposes
      decomposed.push_back(static_cast<utf8proc_int32_t>(step.code_point));
    } else {
      std::array<utf8proc_int32_t, kLongestDecomposition> parts{};
      int last_boundary_class = 0;
      const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), parts.data(),
                                                 static_cast<utf8proc_ssize_t>(parts.size()), kDecompose,
                                                 &last_boundary_class);
      if (count < 0) fail(count);
      if (count > static_cast<utf8proc_ssize_t>(parts.size())) fail(UTF8PROC_ERROR_OVERFLOW);
      decomposed.insert(decomposed.end(), parts.begin(), parts.begin() + count);
    }
    text.remove_prefix(step.length);
  }
  return decomposed;
}

utf8proc_propval_t combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

/// Canonical order: each run of combining marks sorted by class, equal classes in the order they had.
/// utf8proc_decompose would do this by exchanging neighbours, which takes a minute for a megabyte of
/// marks in falling order; hence it is done here, with the code points taken one by one.
void order_canonically(std::vector<utf8proc_int32_t>& code_points) {
  auto at = code_points.begin();
  while (at != code_points.end()) {
    if (combining_class(*at) == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(at, code_points.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(at, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    at = end;
  }
}

}  // namespace

bool certainly_nfc(std::string_view text) {
  // Below U+0300, whose UTF-8 starts with CC, all characters are starters and none combines with one before.
  return std::none_of(text.begin(), text.end(), [](char c) { return static_cast<std::uint8_t>(c) >= 0xCC; });
}

std::string nfc(std::string_view text) {
  std::vector<utf8proc_int32_t> code_points = decompose(text);
  order_canonically(code_points);
  std::string normalized;
  normalized.reserve(text.size());
  // utf8proc 2.8 takes U+11A7 for a Hangul trailing consonant and swallows it. It is a starter that
  // composes with nothing, so the stretches between can be composed by themselves.
  auto begin = code_points.begin();
  for (;;) {
    const auto end = std::find(begin, code_points.end(), kBeforeTrailingConsonants);
    const auto count = utf8proc_normalize_utf32(std::to_address(begin), end - begin, kCompose);
    if (count < 0) fail(count);
    std::for_each(begin, begin + count, [&](auto c) { append_utf8(static_cast<char32_t>(c), normalized); });
    if (end == code_points.end()) return normalized;
    append_utf8(static_cast<char32_t>(kBeforeTrailingConsonants), normalized);
    begin = end + 1;
  }
}

}  // namespace inferno
