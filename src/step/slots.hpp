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
  };

  SlotTable() = default;
  /// Allocates everything that setting and choosing needs.
  SlotTable(std::uint32_t slots, std::uint32_t vocab_size);
  static std::uint64_t bytes(std::uint32_t slots, std::uint32_t vocab_size);

  /// Throws UsageError (nothing changed) as Executor::set_slot says.
  void set(std::uint32_t slot, const SlotState& state, const Capabilities& capabilities);
  Slot& operator[](std::uint32_t slot) { return slots_[slot]; }

  /// A copy of a slot's history to go on with for drafts; one at a time.
  TokenHistory& draft_history(const Slot& slot);

 private:
  std::uint32_t vocab_size_ = 0;
  std::vector<Slot> slots_;
  TokenHistory blank_;  // assigned to a slot to clear it: keeps the slot's memory, unlike a new history
  TokenHistory draft_;
};

}  // namespace inferno
