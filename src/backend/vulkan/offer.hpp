#pragma once

#include <string_view>

#include "backend/registry.hpp"

/// What the registry knows of Vulkan. In a build without it not_built.cpp stands in for offer.cpp.
namespace inferno::vulkan {

/// The devices that there are, or why there is none that would be taken by default.
BackendStatus probe(std::string_view name);
/// The executor of `vulkan`, or why there is none.
Offer create(const LoadedModel& model, const BackendOptions& options);

/// The executor of `hybrid`: a CPU whose larger matrix products are done by the device.
Offer create_hybrid(const LoadedModel& model, const BackendOptions& options);
BackendStatus probe_hybrid(std::string_view name);

}  // namespace inferno::vulkan
