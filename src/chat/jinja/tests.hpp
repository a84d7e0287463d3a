#pragma once

#include <string>
#include <string_view>

#include "chat/jinja/function.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

/// value is name(arguments).
using Test = bool (*)(Interpreter&, const Value& subject, Arguments&);

/// The test of this name, or nullptr.
Test find_test(std::string_view name);
/// "there is no test …; …".
std::string unknown_test(std::string_view name);

}  // namespace inferno::jinja
