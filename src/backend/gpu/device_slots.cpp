#include "backend/gpu/device_slots.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "backend/gpu/kernels.hpp"
#include "sampling/fixed_settings.hpp"

namespace inferno::gpu {
namespace {

constexpr std::uint32_t kMostBiases = SlotTable::kMostDeviceBiases;
constexpr std::uint32_t kInPrompt = 0x80000000U;

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

}  // namespace

DeviceSlots::DeviceSlots(Device& device, const ModelConfig& config, const Limits& limits)
    : device_(device), vocab_size_(config.vocab_size), mask_words_(divide_up(config.vocab_size, 32)) {
  const auto make = [&](std::uint64_t words, Memory memory) {
    return device.create_buffer(words * sizeof(std::uint32_t), memory, "sampling slots");
  };
  const std::uint64_t slots = limits.slots;
  states = make(std::uint64_t{limits.max_tokens} * kSampleWords, Memory::upload);
  biases = make(slots * kMostBiases * 2, Memory::upload);
  counts = make(slots * vocab_size_, Memory::device);
  masks = make(slots * mask_words_, Memory::device);
}

std::uint64_t DeviceSlots::bytes(const ModelConfig& config, const Limits& limits) {
  const std::uint64_t slot =
      std::uint64_t{config.vocab_size} + divide_up(config.vocab_size, 32) + std::uint64_t{kMostBiases} * 2;
  return (limits.slots * slot + std::uint64_t{limits.max_tokens} * kSampleWords) * sizeof(std::uint32_t);
}

bool DeviceSlots::fits(const DeviceCapabilities& device, const ModelConfig& config, const Limits& limits) {
  return limits.slots > 0 &&
         std::uint64_t{limits.slots} * config.vocab_size * sizeof(std::uint32_t) <= device.max_range;
}

SampleConstants DeviceSlots::constants() const {
  return {.columns = vocab_size_,
          .stride = pad_up(vocab_size_, kPadColumns),
          .most_biases = kMostBiases,
          .mask_words = mask_words_};
}

void DeviceSlots::start_step(std::uint32_t rows) const {
  std::memset(states->mapped().data(), 0, std::size_t{rows} * kSampleWords * sizeof(std::uint32_t));
}

void DeviceSlots::choose_by(std::uint32_t row, std::uint32_t index, SlotTable::Slot& slot) {
  if (!slot.device_current) send(index, slot);
  slot.device_current = true;
  const SamplingSettings& settings = slot.settings;
  const bool draws = settings.temperature >= SamplingSettings::kGreedyBelow;
  const bool filters = settings.top_p < 1.0F;
  std::array<std::uint32_t, kSampleWords> words{};
  words[kSampleFlags] = kSampleHere | (draws ? kSampleDraws : 0U) | (filters ? kSampleTopP : 0U) |
                        (uses_history(settings) ? kSamplePenalizes : 0U) |
                        (slot.allowed.empty() ? 0U : kSampleMasks);
  words[kSampleSlot] = index;
  words[kSampleTopK] = static_cast<std::uint32_t>(settings.top_k);
  words[kSampleShare] = sampling::fixed_share(settings.top_p);
  words[kSampleLeast] = sampling::fixed_share(settings.min_p);
  if (draws) words[kSampleScale] = bits(sampling::weight_scale(settings.temperature));
  words[kSampleSeed] = static_cast<std::uint32_t>(settings.seed);
  words[kSampleSeed + 1] = static_cast<std::uint32_t>(settings.seed >> 32U);
  words[kSampleBiases] = static_cast<std::uint32_t>(settings.logit_bias.size());
  words[kSampleRepetition] = bits(settings.repetition_penalty);
  words[kSampleInverseRepetition] = bits(1.0F / settings.repetition_penalty);
  words[kSamplePresence] = bits(settings.presence_penalty);
  words[kSampleFrequency] = bits(settings.frequency_penalty);
  std::memcpy(states->mapped().data() + std::size_t{row} * sizeof words, words.data(), sizeof words);
}

void DeviceSlots::send(std::uint32_t index, const SlotTable::Slot& slot) {
  std::byte* bias = biases->mapped().data() + std::size_t{index} * kMostBiases * 2 * sizeof(std::uint32_t);
  for (const auto& [id, value] : slot.settings.logit_bias) {
    const std::array<std::uint32_t, 2> entry = {static_cast<std::uint32_t>(id), bits(value)};
    std::memcpy(bias, entry.data(), sizeof entry);
    bias += sizeof entry;
  }
  if (uses_history(slot.settings)) {
    counts_of_.assign(vocab_size_, 0);
    for (const std::int32_t id : slot.history.distinct()) {
      counts_of_[static_cast<std::size_t>(id)] =
          slot.history.generated(id) | (slot.history.in_prompt(id) ? kInPrompt : 0U);
    }
    const std::uint64_t bytes = std::uint64_t{vocab_size_} * sizeof(std::uint32_t);
    device_.upload({*counts, index * bytes, bytes}, std::as_bytes(std::span(counts_of_)));
  }
  if (!slot.allowed.empty()) {
    const std::uint64_t bytes = std::uint64_t{mask_words_} * sizeof(std::uint32_t);
    device_.upload({*masks, index * bytes, bytes}, std::as_bytes(std::span(slot.allowed)));
  }
}

}  // namespace inferno::gpu
