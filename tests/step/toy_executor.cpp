#include "step/toy_executor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>

namespace inferno::toy {
namespace {

constexpr std::uint64_t kPoison = ~std::uint64_t{0};  // cache content that stands for a NaN
constexpr std::uint32_t kHeadPiece = 2;               // small, so that the head comes in pieces

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9;
  value = (value ^ value >> 27) * 0x94D049BB133111EB;
  return value ^ value >> 31;
}

// In [-range, range); NaN for poison.
float number(std::uint64_t state, std::uint64_t index, float range) {
  if (state == kPoison) return std::numeric_limits<float>::quiet_NaN();
  const std::uint64_t bits = mix(state + index * 0x9E3779B97F4A7C15) >> 40;  // 24 of them: exact as a float
  return (static_cast<float>(bits) * 0x1p-23F - 1.0F) * range;
}

Capabilities toy_capabilities() {
  Capabilities can;
  can.backend = "toy";
  can.device = "nothing in particular";
  can.multi_step = can.token_references = can.sampling_slots = can.token_masks = true;
  can.logits = can.scores = can.hidden = can.block_transfer = can.observation = true;
  can.referable_tickets = 4;
  can.cache_format = "toy";
  return can;
}

}  // namespace

ModelConfig toy_config() {
  ModelConfig config;
  config.name = "toy";
  config.layers = 2;
  config.hidden_size = 24;
  config.ffn_size = 40;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 16;
  config.vocab_size = 97;
  config.context_length = 4096;
  return config;
}

ToyExecutor::ToyExecutor(const ModelConfig& config, Flaw flaw)
    : DeferredExecutor(config, toy_capabilities()), config_(config), flaw_(flaw) {}

MemoryNeed ToyExecutor::memory_need(const Limits& limits) const {
  return {.cache_bytes = std::uint64_t{limits.blocks} * limits.block_size * sizeof(std::uint64_t),
          .scratch_bytes = limits.max_tokens * sizeof(std::uint64_t) + slot_bytes(limits),
          .weight_bytes = 0};
}

void ToyExecutor::allocate(const Limits& limits) {
  cache_ = {};
  states_ = {};
  // What no machine has is refused here: a sanitizer's allocator would end the program instead of throwing.
  if (memory_need(limits).cache_bytes > std::uint64_t{1} << 40U) throw std::bad_alloc();
  cache_.assign(std::size_t{limits.blocks} * limits.block_size, 0);
  states_.assign(limits.max_tokens, 0);
  block_size_ = limits.block_size;
}

std::span<std::uint64_t> ToyExecutor::block(std::uint32_t index) {
  return std::span(cache_).subspan(index * block_size_, block_size_);
}

void ToyExecutor::copy_block(std::uint32_t source, std::uint32_t target) {
  if (flaw_ == Flaw::copies_nothing) return;
  const auto from = block(source);
  std::copy(from.begin(), from.end(), block(target).begin());
}

void ToyExecutor::read_block(std::uint32_t index, std::span<std::byte> target) const {
  std::memcpy(target.data(), cache_.data() + index * block_size_, target.size());
}

void ToyExecutor::write_block(std::uint32_t index, std::span<const std::byte> source) {
  if (flaw_ == Flaw::imports_nothing) return;
  std::memcpy(cache_.data() + index * block_size_, source.data(), source.size());
}

void ToyExecutor::run_step(const StepWork& work, HeadConsumer& head) {
  announce(work, -1, Stage::embedding);
  run_layers(work);
  run_head(work, head);
}

// The "attention": a hash over all positions up to this one, read through the block table.
std::uint64_t ToyExecutor::attend(std::span<const std::uint32_t> table, std::uint32_t position) {
  std::uint64_t state = 0;
  for (std::uint32_t i = 0; i <= position; ++i) {
    const std::uint64_t entry = block(table[i / block_size_])[i % block_size_];
    if (entry == kPoison) return kPoison;
    state = mix(state ^ entry);
  }
  if (flaw_ == Flaw::sees_block_ids) state = mix(state ^ table[0]);
  if (flaw_ == Flaw::sees_old_content) {
    const auto last = block(table[position / block_size_]);
    for (std::size_t i = position % block_size_ + 1; i < block_size_; ++i) state = mix(state ^ last[i]);
  }
  return state;
}

void ToyExecutor::run_layers(const StepWork& work) {
  const StepPlan& plan = work.plan;
  bool poisoned = false;
  for (std::size_t t = 0; t < work.tokens.size(); ++t) {
    const CacheSlot slot = plan.cache_slots[t];
    const auto token = static_cast<std::uint64_t>(work.tokens[t]);
    block(slot.block)[slot.offset] = mix(token << 32 | plan.positions[t]) & ~std::uint64_t{1};
  }
  for (std::size_t t = 0; t < work.tokens.size(); ++t) {
    const RowPlan& row = plan.rows[plan.row_of_token[t]];
    std::uint64_t state = attend(work.table(row), plan.positions[t]);
    if (state == kPoison) poisoned = true;
    if (flaw_ == Flaw::sees_neighbours) state = mix(state + plan.rows.size());
    if (flaw_ == Flaw::sees_chunks) state = mix(state + row.tokens);
    if (flaw_ == Flaw::observed_differently && work.observer != nullptr) state = mix(state);
    states_[t] = state;
  }
  if (poisoned && flaw_ == Flaw::spreads_nan) std::fill(states_.begin(), states_.end(), kPoison);

  for (int layer = 0; layer < static_cast<int>(config_.layers); ++layer) {
    for (int i = 0; i < kStagesPerLayer; ++i) {
      const auto stage = static_cast<Stage>(static_cast<int>(Stage::attention_norm) + i);
      if (flaw_ == Flaw::skips_a_stage && layer == 1 && stage == Stage::up) continue;
      announce(work, layer, stage);
    }
  }
}

void ToyExecutor::run_head(const StepWork& work, HeadConsumer& head) {
  const StepPlan& plan = work.plan;
  const auto rows = static_cast<std::uint32_t>(plan.head_tokens.size());
  if (rows == 0) return;
  announce(work, -1, Stage::final_norm);
  const StageEvent event{-1, Stage::lm_head};
  if (plan.needs_lm_head && work.observer != nullptr) work.observer->begin(event);
  std::vector<float> hidden(config_.hidden_size);                           // [D]
  std::vector<float> logits(std::size_t{kHeadPiece} * config_.vocab_size);  // [piece, V]
  for (std::uint32_t first = 0; first < rows; first += kHeadPiece) {
    const std::uint32_t end = std::min(first + kHeadPiece, rows);
    std::array<bool, kHeadPiece> wanted{};
    std::size_t count = 0;
    for (std::uint32_t row = first; row < end; ++row) {
      wanted[row - first] = head.wants_logits(row);
      if (!wanted[row - first]) continue;
      const std::uint32_t seen = flaw_ == Flaw::mixes_head_rows && row > 0 ? row - 1 : row;
      const auto target = std::span(logits).subspan(count++ * config_.vocab_size, config_.vocab_size);
      for (std::size_t v = 0; v < target.size(); ++v) {
        target[v] = number(states_[plan.head_tokens[seen]], 1000 + v, 4.0F);
      }
    }
    if (plan.needs_lm_head && work.observer != nullptr) {
      if (end == rows) work.observer->end(event);
      if (work.observer->wants_values()) {
        work.observer->values(event, std::span(logits).first(count * config_.vocab_size), config_.vocab_size);
      }
    }
    std::size_t next = 0;
    for (std::uint32_t row = first; row < end; ++row) {
      for (std::size_t i = 0; i < hidden.size(); ++i)
        hidden[i] = number(states_[plan.head_tokens[row]], i, 1.0F);
      head.take_hidden(row, hidden);
      if (!wanted[row - first]) continue;
      head.take_logits(row, std::span(logits).subspan(next++ * config_.vocab_size, config_.vocab_size));
    }
  }
}

// A toy has nothing to show between its stages; shapes and order are those of a real backend.
void ToyExecutor::announce(const StepWork& work, int layer, Stage stage) const {
  if (work.observer == nullptr) return;
  const StageEvent event{layer, stage, 1, 1};
  work.observer->begin(event);
  work.observer->end(event);
  if (!work.observer->wants_values() || stage == Stage::append_kv) return;
  std::size_t width = config_.hidden_size;
  switch (stage) {
    case Stage::query:
    case Stage::query_norm:
    case Stage::rope_query:
    case Stage::attention:
      width = config_.query_width();
      break;
    case Stage::key:
    case Stage::value:
    case Stage::key_norm:
    case Stage::rope_key:
      width = config_.kv_width();
      break;
    case Stage::gate:
    case Stage::up:
    case Stage::swiglu:
      width = config_.ffn_size;
      break;
    default:
      break;
  }
  const std::size_t rows = stage == Stage::final_norm ? work.plan.head_tokens.size() : work.tokens.size();
  const std::vector<float> values(rows * width, 0.0F);
  work.observer->values(event, values, width);
}

}  // namespace inferno::toy
