#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "backend/gpu/device.hpp"
#include "model/config.hpp"
#include "step/slots.hpp"

namespace inferno::gpu {

/// The sampling slots on a device: what `adjust` and `sample` read. The host's slots are the truth; what has
/// changed there is sent over before a step that chooses by them.
class DeviceSlots {
 public:
  /// Throws Error if the memory cannot be had.
  DeviceSlots(Device& device, const ModelConfig& config, const Limits& limits);
  static std::uint64_t bytes(const ModelConfig& config, const Limits& limits);
  /// Whether a device can bind the state of so many slots.
  static bool fits(const DeviceCapabilities& device, const ModelConfig& config, const Limits& limits);

  /// Forgets which head rows choose by slots.
  void start_step(std::uint32_t rows) const;
  /// Head row `row` chooses by `slot`.
  void choose_by(std::uint32_t row, std::uint32_t index, SlotTable::Slot& slot);

  SampleConstants constants() const;

  std::unique_ptr<Buffer> states;  // u32 [T][kSampleWords]
  std::unique_ptr<Buffer> biases;  // uvec2 [slots][kMostBiases]
  std::unique_ptr<Buffer> counts;  // u32 [slots][V]
  std::unique_ptr<Buffer> masks;   // u32 [slots][ceil(V / 32)]

 private:
  void send(std::uint32_t index, const SlotTable::Slot& slot);

  Device& device_;
  std::uint32_t vocab_size_;
  std::uint32_t mask_words_;
  std::vector<std::uint32_t> counts_of_;  // [V] on its way over
};

}  // namespace inferno::gpu
