#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampler.hpp"
#include "step/executor.hpp"

namespace inferno {

/// The sampling slots of an executor that chooses on the host: settings, mask, and what was generated.
class SlotTable {
 public:
  struct Slot {
    SamplingSettings settings;
    std::vector<std::uint32_t> allowed;  ///< [ceil(V / 32)], or empty
    TokenHistory history;
    /// Whether a device that keeps slots, too, has seen this state.
    bool device_current = false;

    /// Whether the choice is the largest of the logits as they are.
    bool is_plain_greedy() const {
      return settings.temperature < SamplingSettings::kGreedyBelow && settings.logit_bias.empty() &&
             allowed.empty() && !uses_history(settings);
    }
  };

  /// Entries of a logit bias that a device takes.
  static constexpr std::uint32_t kMostDeviceBiases = 64;

  SlotTable() = default;
  /// Allocates everything that setting and choosing needs.
  SlotTable(std::uint32_t slots, std::uint32_t vocab_size);
  static std::uint64_t bytes(std::uint32_t slots, std::uint32_t vocab_size);

  /// Throws UsageError (nothing changed) as Executor::set_slot says.
  void set(std::uint32_t slot, const SlotState& state, const Capabilities& capabilities);
  Slot& operator[](std::uint32_t slot) { return slots_[slot]; }

  /// Says that a device can choose by slots, too.
  void choose_on_device() { on_device_ = true; }
  /// Whether it can choose by this one.
  bool chooses_on_device(const Slot& slot) const {
    return on_device_ && slot.settings.logit_bias.size() <= kMostDeviceBiases;
  }

  /// A copy of a slot's history to go on with for drafts; one at a time.
  TokenHistory& draft_history(const Slot& slot);

 private:
  std::uint32_t vocab_size_ = 0;
  std::vector<Slot> slots_;
  bool on_device_ = false;
  TokenHistory blank_;  // assigned to a slot to clear it: keeps the slot's memory, unlike a new history
  TokenHistory draft_;
};

}  // namespace inferno
