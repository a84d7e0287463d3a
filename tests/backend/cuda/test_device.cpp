// The device for tests that are shared with Vulkan: a CUDA one.

#include "backend/vulkan/test_device.hpp"

#include "backend/cuda/device.hpp"
#include "backend/cuda/library.hpp"

namespace inferno::test {

std::unique_ptr<gpu::Device> open_test_device(const TestDeviceOptions& /*options*/) {
  return cuda::open_device(*cuda::library().module, 0);
}

gpu::Device& shared_test_device() {
  static const std::unique_ptr<gpu::Device> device = open_test_device();
  return *device;
}

}  // namespace inferno::test
