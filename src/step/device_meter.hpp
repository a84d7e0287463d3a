#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace inferno {

/// What a device can do at best, measured on it.
struct DeviceLimits {
  std::uint64_t buffer_bytes = 0;  ///< that were read, over and over
  double read_gb_per_second = 0;   ///< 1e9 bytes
  double int8_gops = 0;            ///< dot products of int8 pairs: a multiply and an add are two operations
  double fp32_gflops = 0;          ///< fused multiply-adds in float32: two operations each
  std::string int8_kernel;         ///< what is behind the figure, for people
  std::string fp32_kernel;
};

/// Measures a device. Must not outlive the executor that it is of, and nothing else may use that meanwhile.
class DeviceMeter {
 public:
  virtual ~DeviceMeter() = default;
  DeviceMeter() = default;
  DeviceMeter(const DeviceMeter&) = delete;
  DeviceMeter& operator=(const DeviceMeter&) = delete;

  /// What reading reaches now. Throws Error or DeviceLost, as `limits` does.
  virtual double read_gb_per_second() = 0;
  /// All figures. Takes less than a second.
  virtual DeviceLimits limits() = 0;
};

/// An executor on a device of its own: what is measured of it is not to be compared with the processor's
/// limits.
class OnDevice {
 public:
  virtual ~OnDevice() = default;
  OnDevice() = default;
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  /// A meter that reads a buffer of about `buffer_bytes`, as far as the device has room for it; none if this
  /// backend cannot measure its device. Throws Error.
  virtual std::unique_ptr<DeviceMeter> device_meter(std::uint64_t buffer_bytes) = 0;
};

}  // namespace inferno
