#pragma once

#include "model/loaded_model.hpp"
#include "verify/step_rungs.hpp"

namespace inferno::verify {

/// Climbs the first rung: each vector kernel of each instruction set that this processor has, on rows of the
/// model's own weights and on activations and caches of its shapes, against the contract's definitions
/// (src/arith): equal, bit for bit. Sets that the processor lacks are skipped by name.
void climb_kernels(const LoadedModel& model, RungWriter& rungs);

}  // namespace inferno::verify
