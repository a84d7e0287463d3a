#include "bench/device_machine.hpp"

namespace inferno::bench {

double DeviceMachine::read_gb_per_second() {
  return meter_ == nullptr ? 0 : meter_->read_gb_per_second();
}

MachineLimits DeviceMachine::limits() {
  MachineLimits limits;
  limits.threads = 0;
  if (meter_ == nullptr) return limits;
  const DeviceLimits device = meter_->limits();
  limits.buffer_bytes = device.buffer_bytes;
  limits.read_gb_per_second = device.read_gb_per_second;
  limits.int8_gops = device.int8_gops;
  limits.fp32_gflops = device.fp32_gflops;
  limits.int8_kernel = device.int8_kernel;
  limits.fp32_kernel = device.fp32_kernel;
  return limits;
}

}  // namespace inferno::bench
