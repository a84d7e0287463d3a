#pragma once

#include "backend/gpu/device.hpp"
#include "step/device_meter.hpp"

namespace inferno::gpu {

/// Measures a device with kernels that do nothing else (measure_read and its like).
class Meter : public DeviceMeter {
 public:
  /// `device` outlives the meter. Throws Error if there is no memory for the buffer.
  Meter(Device& device, std::uint64_t buffer_bytes);

  double read_gb_per_second() override;
  DeviceLimits limits() override;

 private:
  double peak(Kernel kernel, double operations);

  Device& device_;
  std::uint64_t bytes_;
  std::unique_ptr<Buffer> data_;
  std::unique_ptr<Buffer> sink_;
  std::unique_ptr<Recording> reading_;
};

}  // namespace inferno::gpu
