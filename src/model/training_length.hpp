#pragma once

#include <cstdint>

#include "model/config.hpp"

namespace inferno {

/// Logs a warning if sequences of so many positions go beyond what the model was trained on: it computes
/// there, but what it says falls apart.
void warn_beyond_training(const ModelConfig& config, std::uint64_t positions);

}  // namespace inferno
