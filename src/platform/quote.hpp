#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace inferno {

/// Text of unknown origin for a message of one line: in double quotes, at most about `limit` bytes of it
/// (then its full length). Control characters, broken UTF-8 and characters that reorder or hide text are
/// escaped.
std::string quote(std::string_view text, std::size_t limit = 80);

/// The same without the quotes, for text that is a line or a part of one already; quotation marks and
/// backslashes stay as they are.
std::string printable(std::string_view text, std::size_t limit = 80);

}  // namespace inferno
