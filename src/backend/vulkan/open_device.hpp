#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/gpu/device.hpp"

/// The door to Vulkan for the rest of the program: no Vulkan type goes through it.
namespace inferno::vulkan {

struct OpenOptions {
  /// Number of the device; without it the first that is no CPU.
  std::optional<std::uint32_t> device = {};
  /// With the validation layer, whose complaints are logged and counted.
  bool validation = false;
  /// Time every kernel; what was found is logged when the device is closed.
  bool timestamps = false;
  /// For tests: kernels with integer dot products or without, whatever suits the device.
  std::optional<bool> integer_dot = {};
  /// For tests: pretend that the device binds no more than this at once.
  std::optional<std::uint64_t> max_range = {};
};

/// Throws Error saying why there is none.
std::unique_ptr<gpu::Device> open_device(const OpenOptions& options);

/// What the validation layer has complained about so far in this process.
std::uint64_t validation_messages();

/// The name of the device that `open_device` would open. Throws Error like it.
std::string device_name(std::optional<std::uint32_t> device);

/// The names of all devices in the order of their numbers. Throws Error if there is no loader or no driver.
std::vector<std::string> device_names();

}  // namespace inferno::vulkan
