#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "step/executor.hpp"

namespace inferno {

/// Throws Error with needed and available bytes if cache and scratch of `need` do not fit what this process
/// can still take. Refusing beats being killed half-way through a text.
void check_memory(std::string_view backend, const MemoryNeed& need, const Limits& limits);

/// How many cache blocks fit `free` bytes (nullopt: nobody knows) beside the scratch of `need`, which is for
/// `limits`; a tenth of them is left to others. `where`: whose bytes they are.
BlockRoom room_for_blocks(const MemoryNeed& need, const Limits& limits, std::optional<std::uint64_t> free,
                          std::string_view where);

}  // namespace inferno
