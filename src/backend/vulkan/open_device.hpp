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
  /// Number of the device; without it the first that can be used and is no CPU.
  std::optional<std::uint32_t> device = {};
  /// Whether the number may be that of a CPU that poses as a GPU.
  bool software = true;
  /// With the validation layer, whose complaints are logged and counted.
  bool validation = false;
  /// Time every kernel; what was found is logged when the device is closed.
  bool timestamps = false;
  /// For tests: kernels with integer dot products or without, whatever suits the device.
  std::optional<bool> integer_dot = {};
  /// For tests: do not ask the driver how much memory is free.
  bool memory_budget = true;
  /// For tests: pretend that the device binds no more than this at once.
  std::optional<std::uint64_t> max_range = {};
};

/// Throws Error saying why there is none.
std::unique_ptr<gpu::Device> open_device(const OpenOptions& options);

/// What the validation layer has complained about so far in this process.
std::uint64_t validation_messages();

/// The devices that Vulkan offers.
struct DeviceList {
  std::vector<std::string> names;  ///< by number; says of CPUs that they are
  std::string taken;               ///< the name of the one that is taken by default; empty if none is
  std::string reason;              ///< why none is
};

/// Throws Error if there is no loader or no driver.
DeviceList list_devices();

}  // namespace inferno::vulkan
