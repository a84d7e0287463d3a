#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "chat/jinja/interpreter.hpp"

namespace inferno::jinja {

/// range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
Variables make_globals();
/// Whether one of those has that name.
bool is_global(std::string_view name);

/// strftime as Python's: %f are microseconds, which are not known here (000000); zones are empty.
std::string format_time(std::time_t now, std::string_view format);

}  // namespace inferno::jinja
