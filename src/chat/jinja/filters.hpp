#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "chat/jinja/function.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// value|name(arguments).
using Filter = Value (*)(Interpreter&, const Value& subject, Arguments&);

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

/// The filter of this name, or nullptr.
Filter find_filter(std::string_view name);
/// "there is no filter …; …".
std::string unknown_filter(std::string_view name);

template <std::size_t Count>
Filter find_in(const NamedFilter (&filters)[Count], std::string_view name) {
  for (const auto& [own, filter] : filters) {
    if (own == name) return filter;
  }
  return nullptr;
}

/// item.a.0.b for the path "a.0.b", or item[path] if that is no string. With a `fallback` that is not none,
/// that stands in for what is undefined.
Value attribute_path(Interpreter& interpreter, const Value& item, const Value& path,
                     const Value& fallback = Value());

// Where they come from.
Filter find_string_filter(std::string_view name);
Filter find_number_filter(std::string_view name);
Filter find_sequence_filter(std::string_view name);
Filter find_selecting_filter(std::string_view name);

}  // namespace inferno::jinja
