// The contract backends of the CPU: the plain reference, and the vector kernels under each way of threading.

#include "backend/registry.hpp"
#include "conformance/conformance.hpp"

namespace {

auto on(const char* backend, std::uint32_t threads = 0) {
  return inferno::conformance::on_small_models([backend, threads](const inferno::LoadedModel& model) {
    return inferno::create_executor(backend, model, {.device = 0, .threads = threads});
  });
}

}  // namespace

INFERNO_CONFORMANCE(Reference, on("reference"));
INFERNO_CONFORMANCE(Simd, on("simd"));
INFERNO_CONFORMANCE(Parallel, on("parallel", 2));
INFERNO_CONFORMANCE(Pool, on("pool", 3));
