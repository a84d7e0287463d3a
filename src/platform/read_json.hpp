#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace inferno {

/// Tells `events`, which is derived from nlohmann::json_sax, what the text holds. nlohmann's parser takes a
/// NUL for the end of the text and never looks at what follows. JSON has none, not even in strings, so here
/// it is an error wherever it stands.
template <typename Events>
void read_json(std::string_view text, Events& events) {
  if (const auto nul = text.find('\0'); nul != std::string_view::npos) {
    constexpr int kUnexpectedToken = 101;
    events.parse_error(nul + 1, std::string(1, '\0'),
                       nlohmann::detail::parse_error::create(kUnexpectedToken, nul + 1, "a NUL", nullptr));
    return;
  }
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
}

}  // namespace inferno
