#pragma once

#include <string>
#include <vector>

#include "grammar/program.hpp"

/// Values that are made without a schema.
namespace inferno::grammar {

/// Any JSON value; any JSON object. The same one each time.
ValueId any_json(Program& program);
ValueId any_object(Program& program);
/// One text, byte by byte.
ValueId literal(Program& program, std::string text);

/// Fills in what the automaton looks up in an object whose properties, in order, have these names.
/// The text of other names, too, unless it is there already.
void index_properties(Program& program, ObjectMachine& machine, const std::vector<std::string>& names);

}  // namespace inferno::grammar
