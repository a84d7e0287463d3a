#include "backend/vulkan/offer.hpp"

#include <cstdlib>
#include <fmt/format.h>

#include "backend/cpu/cpu_backends.hpp"
#include "backend/gpu/executor.hpp"
#include "backend/gpu/hybrid_products.hpp"
#include "backend/vulkan/open_device.hpp"
#include "platform/log.hpp"

namespace inferno::vulkan {
namespace {

bool is_on(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && std::string_view(value) == "1";
}

std::unique_ptr<gpu::Device> open(std::string_view name, const BackendOptions& options) {
  auto device = open_device({.device = options.device,
                             .software = options.software,
                             .validation = is_on("INFERNO_VULKAN_VALIDATION"),
                             .timestamps = is_on("INFERNO_VULKAN_TIMESTAMPS")});
  if (device->capabilities().software) {
    log().warn("{}: {} is a CPU that poses as a GPU; pool is much faster", name, device->capabilities().name);
  }
  if (!device->capabilities().keeps_subnormals) {
    log().warn(
        "{}: {} takes floats below 2^-126 for zero and cannot be told otherwise; results are the CPU's as "
        "long as "
        "no value as small as that matters",
        name, device->capabilities().name);
  }
  return device;
}

}  // namespace

BackendStatus probe(std::string_view name) {
  try {
    const DeviceList list = list_devices();
    return {std::string(name), !list.taken.empty(), list.taken, list.reason, list.names};
  } catch (const Error& error) {
    return {std::string(name), false, {}, error.what()};
  }
}

BackendStatus probe_hybrid(std::string_view name) {
  BackendStatus status = probe(name);
  const BackendStatus cpu = cpu::probe(name, cpu::Threading::pool);
  if (status.available) status.device = cpu::hybrid_device(status.device, cpu.device);
  return status;
}

Offer create(const LoadedModel& model, const BackendOptions& options) {
  try {
    return {std::make_unique<gpu::GpuExecutor>("vulkan", model, open("vulkan", options)), {}};
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

Offer create_hybrid(const LoadedModel& model, const BackendOptions& options) {
  try {
    auto products = std::make_unique<gpu::HybridProducts>(model, open("hybrid", options));
    BackendOptions cpu_options = options;
    cpu_options.device.reset();  // it was the GPU's number
    return cpu::create_hybrid("hybrid", model, cpu_options, std::move(products));
  } catch (const Error& error) {
    return {nullptr, error.what()};
  }
}

}  // namespace inferno::vulkan
