#include "step/slots.hpp"

#include <fmt/format.h>
#include <utility>

namespace inferno {
namespace {

void check_ids(std::span<const std::int32_t> ids, std::uint32_t vocab_size, std::string_view field) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<std::uint32_t>(ids[i]) < vocab_size) continue;
    throw UsageError(
        fmt::format("slot state: {}[{}]: expected 0 to {}, found {}", field, i, vocab_size - 1, ids[i]));
  }
}

}  // namespace

SlotTable::SlotTable(std::uint32_t slots, std::uint32_t vocab_size)
    : vocab_size_(vocab_size),
      slots_(slots, Slot{SamplingSettings(), {}, TokenHistory(vocab_size), false}),
      blank_(slots == 0 ? 0 : vocab_size),
      draft_(slots == 0 ? 0 : vocab_size) {}

std::uint64_t SlotTable::bytes(std::uint32_t slots, std::uint32_t vocab_size) {
  const std::uint64_t histories = slots == 0 ? 0 : std::uint64_t{slots} + 2;
  return histories * vocab_size * (sizeof(std::uint8_t) + sizeof(std::uint32_t));
}

void SlotTable::set(std::uint32_t slot, const SlotState& state, const Capabilities& capabilities) {
  if (!capabilities.sampling_slots) {
    throw UsageError(fmt::format("set_slot: backend {} declares no sampling slots", capabilities.backend));
  }
  if (slot >= slots_.size()) {
    throw UsageError(fmt::format("set_slot: expected a slot below {}, found {}", slots_.size(), slot));
  }
  check_settings(state.settings, vocab_size_);
  check_ids(state.prompt, vocab_size_, "prompt");
  check_ids(state.generated, vocab_size_, "generated");
  if (!state.allowed.empty()) {
    if (!capabilities.token_masks) {
      throw UsageError(
          fmt::format("slot state: allowed: backend {} declares no token masks", capabilities.backend));
    }
    const std::size_t words = (std::size_t{vocab_size_} + 31) / 32;
    if (state.allowed.size() != words) {
      throw UsageError(fmt::format("slot state: allowed: expected {} words for {} ids, or none, found {}",
                                   words, vocab_size_, state.allowed.size()));
    }
  }

  // Filled aside and swapped in: a failed allocation leaves the slot as it was.
  SamplingSettings settings = state.settings;
  std::vector<std::uint32_t> allowed = state.allowed;
  draft_ = blank_;
  draft_.add_prompt(state.prompt);
  for (const std::int32_t id : state.generated) draft_.add_generated(id);
  Slot& target = slots_[slot];
  std::swap(target.history, draft_);
  target.settings = std::move(settings);
  target.allowed = std::move(allowed);
  target.device_current = false;
}

TokenHistory& SlotTable::draft_history(const Slot& slot) {
  draft_ = slot.history;
  return draft_;
}

}  // namespace inferno
