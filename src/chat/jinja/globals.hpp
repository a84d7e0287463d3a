#pragma once

#include "chat/jinja/interpreter.hpp"

namespace inferno::jinja {

/// range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
Variables make_globals();

/// strftime as Python's: %f are microseconds, which are not known here (000000); zones are empty.
std::string format_time(std::time_t now, std::string_view format);

}  // namespace inferno::jinja
