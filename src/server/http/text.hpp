#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace inferno::http {

/// ASCII letters of any case are equal.
bool equal_ignoring_case(std::string_view a, std::string_view b);

/// The value of a hexadecimal digit; -1 for anything else.
int hex_digit(char c);

/// Whether a character may stand in a token, such as a header field's name.
bool is_token_character(char c);

/// Whether a text is a host, as a name or address (not empty), with or without a port: "a.example:80",
/// "[::1]".
bool is_authority(std::string_view text);

/// Replaces %41 by A and so on; nullopt if a % is not followed by two hexadecimal digits, or stands for a
/// NUL.
std::optional<std::string> percent_decode(std::string_view text);

/// Now, as HTTP's Date header wants it.
std::string http_date();

/// The phrase that goes with a status: "Not Found".
std::string_view reason_phrase(unsigned status);

}  // namespace inferno::http
