#pragma once

#include <string_view>

#include "backend/registry.hpp"

/// What the registry knows of CUDA.
namespace inferno::cuda {

/// The devices that there are, or why there is none.
BackendStatus probe(std::string_view name);
/// The executor of `cuda`, or why there is none.
Offer create(const LoadedModel& model, const BackendOptions& options);

}  // namespace inferno::cuda
