#pragma once

#include "chat/jinja/function.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// Python's format % values. Strings that are put in stay what they are; the rest is the format's. Into
/// markup they are put escaped, unless they are markup.
Text format_percent(Budget& budget, const Text& format, const Value& values, bool markup);
/// Python's format.format(...), as the sandbox allows it; into markup as above.
Text format_braces(Interpreter& interpreter, const Text& format, const Arguments& arguments, bool markup);

}  // namespace inferno::jinja
