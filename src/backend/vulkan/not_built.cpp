#include "backend/vulkan/offer.hpp"

namespace inferno::vulkan {
namespace {

constexpr std::string_view kReason = "not part of this build (it needs libvulkan-dev and glslc)";

}  // namespace

BackendStatus probe(std::string_view name) {
  return {std::string(name), false, {}, std::string(kReason)};
}

BackendStatus probe_hybrid(std::string_view name) {
  return probe(name);
}

Offer create_hybrid(const LoadedModel& model, const BackendOptions& options) {
  return create(model, options);
}

Offer create(const LoadedModel& /*model*/, const BackendOptions& /*options*/) {
  return {nullptr, std::string(kReason)};
}

}  // namespace inferno::vulkan
