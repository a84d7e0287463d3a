#pragma once

#include "grammar/json_document.hpp"
#include "grammar/number_machine.hpp"
#include "grammar/schema_flattener.hpp"

namespace inferno::grammar {

/// The bounds of all members, and the keyword that set one last.
struct NumberBounds {
  NumberMachine::Bounds bounds;
  const Json* keyword = nullptr;
  bool integer = false;  ///< of integers, which every reader can tell apart
};

/// minimum, maximum, their exclusive forms, multipleOf and formats of numbers, of all members. Throws
/// SchemaError.
NumberBounds bounds_of(const SchemaList& members, bool integer);

}  // namespace inferno::grammar
