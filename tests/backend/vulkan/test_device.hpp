#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/gpu/device.hpp"

namespace inferno::test {

struct TestDeviceOptions {
  /// Kernels with integer dot products, even where they are slow, or without; else what is fast.
  std::optional<bool> integer_dot = {};
  std::uint64_t max_range = 0;  ///< pretend that no more than this can be bound; 0: what the device allows
  bool memory_budget = true;    ///< ask the driver how much memory is free
  bool validation = false;      ///< the validation layer watches (also with INFERNO_TEST_VULKAN_VALIDATION=1)
};

/// Opens the first Vulkan device, lavapipe where there is no GPU; INFERNO_TEST_VULKAN_DEVICE=N takes another.
/// Throws Error where there is none: the tests need one (Debian: mesa-vulkan-drivers).
std::unique_ptr<gpu::Device> open_test_device(const TestDeviceOptions& options = {});

/// The same device for all tests of a program that do not care, opened once: compiling kernels takes time.
gpu::Device& shared_test_device();

/// A buffer of device memory that holds `values`.
template <typename T>
std::unique_ptr<gpu::Buffer> buffer_of(gpu::Device& device, std::span<const T> values) {
  auto buffer = device.create_buffer(values.size_bytes(), gpu::Memory::device, "a test");
  device.upload(*buffer, std::as_bytes(values));
  return buffer;
}

/// What a buffer holds from its beginning on.
template <typename T>
std::vector<T> values_of(gpu::Device& device, const gpu::Buffer& buffer, std::size_t count) {
  std::vector<T> values(count);
  device.read({buffer, 0, count * sizeof(T)}, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace inferno::test
