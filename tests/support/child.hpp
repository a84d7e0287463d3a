#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace inferno::test {

enum class Outcome { returned, threw_error, threw_other, died };

/// False under sanitizers: they reserve address space, which therefore cannot be limited.
extern const bool kMemoryIsLimited;

struct ChildResult {
  Outcome outcome = Outcome::died;
  std::string message;          ///< what() of the exception, or how the child died
  double seconds = 0.0;         ///< of processor time: the machine may be busy with other tests
  std::size_t peak_growth = 0;  ///< bytes by which the largest resident size exceeded that at the start
};

/// Runs `work` in a child process that may take `memory` more bytes of address space than it has (if
/// kMemoryIsLimited; the resident size is measured in any case). threw_error: an inferno::Error.
/// A child still running after 20 seconds is ended: Outcome::died.
ChildResult run_in_child(const std::function<void()>& work, std::size_t memory = std::size_t{64} << 20U);

}  // namespace inferno::test
