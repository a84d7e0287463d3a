#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace inferno::http {

/// ASCII letters of any case are equal.
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// Replaces %41 by A and so on; nullopt if a % is not followed by two hexadecimal digits, or stands for a
/// NUL.
std::optional<std::string> percent_decode(std::string_view text);

/// Now, as HTTP's Date header wants it.
std::string http_date();

/// The phrase that goes with a status: "Not Found".
std::string_view reason_phrase(unsigned status);

}  // namespace inferno::http
