#pragma once

#include <string_view>

#include "step/executor.hpp"

namespace inferno {

/// Throws Error with needed and available bytes if cache and scratch of `need` do not fit what this process
/// can still take. Refusing beats being killed half-way through a text.
void check_memory(std::string_view backend, const MemoryNeed& need, const Limits& limits);

}  // namespace inferno
