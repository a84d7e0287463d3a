#pragma once

#include <cstddef>
#include <optional>

#include "grammar/program.hpp"

namespace inferno::grammar {

/// Patterns that may be open at one place. Each costs a walk over all tokens: so many cost a token about as
/// much as is done for one (WorkMeter).
inline constexpr std::size_t kMostPatterns = 40;

/// A place where more ways to go on are open at once than are followed.
struct Crowd {
  std::size_t most = 0;       ///< that there may be
  bool of_patterns = false;   ///< of strings with a pattern; otherwise of all ways
  MachineId example = kNone;  ///< a machine that is open there
};

/// Looks for one, by writing a text that leaves as many ways open as it can. Bounded work: a program in which
/// nothing is found may have one nevertheless, and then fails who comes by.
std::optional<Crowd> find_crowd(const Program& program);

}  // namespace inferno::grammar
