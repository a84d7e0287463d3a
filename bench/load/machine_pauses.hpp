#pragma once

#include "samples.hpp"

namespace inferno::load {

/// How the machine itself interrupts whoever runs on it, which no server can answer faster than: on every
/// core a thread looks at the clock for so many seconds and does nothing else, while the server is idle.
struct MachinePauses {
  Samples lengths;        ///< milliseconds between two looks at the clock, of those that were away
  double per_second = 0;  ///< pauses of at least kLeastPause a second, on all cores
  double share = 0;       ///< of the time of all cores
};

/// Shorter ones are interrupts, of which there are hundreds a second on any machine.
constexpr double kLeastPause = 1.0;

MachinePauses machine_pauses(double seconds);

}  // namespace inferno::load
