// On a Vulkan device, lavapipe where there is no GPU: whole steps, and the CPU's with products asked for one
// by one.

#include "backend/registry.hpp"
#include "conformance/conformance.hpp"

namespace {

auto on(const char* backend) {
  return inferno::conformance::on_small_models([backend](const inferno::LoadedModel& model) {
    return inferno::create_executor(backend, model, {.device = 0});
  });
}

}  // namespace

INFERNO_CONFORMANCE(Vulkan, on("vulkan"));
INFERNO_CONFORMANCE(Hybrid, on("hybrid"));
