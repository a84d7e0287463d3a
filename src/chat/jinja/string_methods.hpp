#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "chat/jinja/methods.hpp"
#include "chat/jinja/text_builder.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// The method of str with this name, or nullptr.
const Method* find_string_method(std::string_view name);
const Method* find_string_search_method(std::string_view name);
const Method* find_string_layout_method(std::string_view name);

struct NamedMethod {
  std::string_view name;
  Method method;
};

template <std::size_t Count>
const Method* find_in(const NamedMethod (&methods)[Count], std::string_view name) {
  for (const auto& [own, method] : methods) {
    if (own == name) return &method;
  }
  return nullptr;
}

// What filters and methods share.

/// Without characters of `chars` (nullptr: blanks) at its ends.
Text stripped(Budget& budget, const Text& text, const Text* chars, bool left, bool right);
/// With `old` replaced by `now`, at most `count` times (negative: always).
Text replaced(Budget& budget, const Text& text, const Text& old, const Text& now, std::int64_t count);
/// Blanks added on both sides up to `width` characters, as Python's center().
Text centered(Budget& budget, const Value& string, std::int64_t width, const Text& fill);
/// Lines without their ends (with them if `keep_ends`), as Python's splitlines().
std::vector<Text> lines_of(Budget& budget, const Text& text, bool keep_ends);

}  // namespace inferno::jinja
