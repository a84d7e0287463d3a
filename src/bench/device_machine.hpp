#pragma once

#include <memory>

#include "bench/machine_limits.hpp"
#include "step/device_meter.hpp"

namespace inferno::bench {

/// The machine of an executor on a device: that device.
class DeviceMachine : public Machine {
 public:
  /// Without a meter nothing is known of the device: its limits are 0.
  explicit DeviceMachine(std::unique_ptr<DeviceMeter> meter) : meter_(std::move(meter)) {}

  double read_gb_per_second() override;
  MachineLimits limits() override;

 private:
  std::unique_ptr<DeviceMeter> meter_;
};

}  // namespace inferno::bench
