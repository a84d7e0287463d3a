#include "backend/vulkan/test_device.hpp"

#include <cstdlib>
#include <string>

#include "backend/vulkan/open_device.hpp"

namespace inferno::test {

std::unique_ptr<gpu::Device> open_test_device(const TestDeviceOptions& options) {
  const char* number = std::getenv("INFERNO_TEST_VULKAN_DEVICE");
  const char* validation = std::getenv("INFERNO_TEST_VULKAN_VALIDATION");
  vulkan::OpenOptions open;
  open.device = number == nullptr ? 0 : static_cast<std::uint32_t>(std::stoul(number));
  open.validation = options.validation || (validation != nullptr && std::string(validation) == "1");
  open.integer_dot = options.integer_dot;
  open.memory_budget = options.memory_budget;
  if (options.max_range != 0) open.max_range = options.max_range;
  return vulkan::open_device(open);
}

gpu::Device& shared_test_device() {
  static const std::unique_ptr<gpu::Device> device = open_test_device();
  return *device;
}

}  // namespace inferno::test
