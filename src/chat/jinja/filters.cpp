#include "chat/jinja/filters.hpp"

#include <fmt/format.h>

#include "platform/quote.hpp"

namespace inferno::jinja {

Filter find_filter(std::string_view name) {
  for (const auto find :
       {find_string_filter, find_sequence_filter, find_selecting_filter, find_number_filter}) {
    if (const auto filter = find(name)) return filter;
  }
  return nullptr;
}

std::string unknown_filter(std::string_view name) {
  return fmt::format(
      "there is no filter {}; expected one of Jinja's that chat templates use (tojson, trim, length, "
      "join, default, map, selectattr, …)",
      quote(name));
}

}  // namespace inferno::jinja
