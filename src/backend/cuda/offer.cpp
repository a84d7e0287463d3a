#include "backend/cuda/offer.hpp"

#include <cstdlib>
#include <fmt/format.h>

#include "backend/cuda/device.hpp"
#include "backend/cuda/executor.hpp"
#include "backend/cuda/library.hpp"

namespace inferno::cuda {
namespace {

/// INFERNO_CUDA_PERSISTENT=0 leaves all steps to the graph path, to compare the two.
bool persistent_wanted() {
  const char* value = std::getenv("INFERNO_CUDA_PERSISTENT");
  return value == nullptr || std::string_view(value) != "0";
}

}  // namespace

BackendStatus probe(std::string_view name) {
  const Library& cuda = library();
  if (!cuda.reason.empty()) return {std::string(name), false, {}, cuda.reason};
  BackendStatus status;
  status.name = name;
  for (int i = 0; i < cuda.devices; ++i) {
    DeviceInfo info;
    const int error = cuda.module->describe(i, &info);
    if (i == 0 && error != 0) status.reason = cuda.module->error_text(error);
    status.devices.emplace_back(error == 0 ? info.name : cuda.module->error_text(error));
  }
  status.available = status.reason.empty();
  if (status.available) status.device = status.devices.front();
  return status;
}

Offer create(const LoadedModel& model, const BackendOptions& options) {
  const Library& cuda = library();
  if (!cuda.reason.empty()) return {nullptr, cuda.reason};
  const std::uint32_t index = options.device.value_or(0);
  if (index >= static_cast<std::uint32_t>(cuda.devices)) {
    return {nullptr, fmt::format("it has {} device{}; number {} was asked for", cuda.devices,
                                 cuda.devices == 1 ? "" : "s", index)};
  }
  try {
    return {std::make_unique<CudaExecutor>(model, open_device(*cuda.module, index), persistent_wanted()), {}};
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace inferno::cuda
