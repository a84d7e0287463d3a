#pragma once

#include <string_view>

#include "chat/jinja/function.hpp"
#include "chat/jinja/value.hpp"

namespace inferno::jinja {

using Method = Value (*)(Interpreter&, const Value& self, Arguments&);

/// The method of a value's type with this name, or nullptr: Python's, as far as the immutable sandbox lets
/// them be called.
const Method* find_method(const Value& value, std::string_view name);
/// Whether the type has a method of this name that would change the value.
bool is_forbidden_method(const Value& value, std::string_view name);

}  // namespace inferno::jinja
