#include "backend/cpu/reference/executor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "arith/vectors.hpp"
#include "backend/cpu/memory_check.hpp"
#include "backend/cpu/reference/project.hpp"

namespace inferno::reference {
namespace {

using arith::add;
using arith::multiply;

/// The shared part's, completed.
Capabilities reference_capabilities(Capabilities can) {
  can.backend = "reference";
  can.device = ReferenceExecutor::kDevice;
  can.contract = true;
  can.observation = true;
  can.cache_format = cpu::kContractCacheFormat;
  return can;
}

std::vector<float> joined(const std::vector<std::vector<float>>& vectors) {
  std::vector<float> all;
  for (const auto& vector : vectors) all.insert(all.end(), vector.begin(), vector.end());
  return all;
}

std::size_t width_of(const std::vector<std::vector<float>>& vectors) {
  return vectors.empty() ? 0 : vectors[0].size();
}

float inverse_of(std::size_t length) {
  return 1.0F / static_cast<float>(length);
}

}  // namespace

ReferenceExecutor::ReferenceExecutor(const LoadedModel& model)
    : DeferredExecutor(model.config, reference_capabilities(shared_capabilities())),
      config_(model.config),
      weights_(model.weights),
      rope_(model.config) {}

MemoryNeed ReferenceExecutor::memory_need(const Limits& limits) const {
  const std::uint64_t widest = std::max({config_.query_width(), config_.ffn_size, config_.hidden_size});
  return {.cache_bytes =
              std::uint64_t{cpu::BlockLayout(config_, limits.block_size).block_bytes()} * limits.blocks,
          .scratch_bytes = 6 * widest * limits.max_tokens * sizeof(float) + slot_bytes(limits),
          .weight_bytes = 0};
}

void ReferenceExecutor::allocate(const Limits& limits) {
  cache_ = {};
  check_memory("reference", memory_need(limits), limits);
  layout_ = cpu::BlockLayout(config_, limits.block_size);
  cache_.resize(layout_.block_bytes() * limits.blocks);
}

void ReferenceExecutor::copy_block(std::uint32_t source, std::uint32_t target) {
  std::memmove(cache_.data() + target * block_bytes(), cache_.data() + source * block_bytes(), block_bytes());
}

void ReferenceExecutor::read_block(std::uint32_t block, std::span<std::byte> target) const {
  std::memcpy(target.data(), cache_.data() + block * block_bytes(), block_bytes());
}

void ReferenceExecutor::write_block(std::uint32_t block, std::span<const std::byte> source) {
  std::memcpy(cache_.data() + block * block_bytes(), source.data(), block_bytes());
}

std::byte* ReferenceExecutor::head_of(std::uint32_t block, std::size_t layer, std::size_t kv_head) {
  return cache_.data() + block * block_bytes() + layout_.head_offset(layer, kv_head);
}

const std::byte* ReferenceExecutor::head_of(std::uint32_t block, std::size_t layer,
                                            std::size_t kv_head) const {
  return cache_.data() + block * block_bytes() + layout_.head_offset(layer, kv_head);
}

void ReferenceExecutor::run_step(const StepWork& work, HeadConsumer& head) {
  cpu::Stages stages(work.observer);
  stages.begin({-1, Stage::embedding});
  hidden_.assign(work.tokens.size(), std::vector<float>(config_.hidden_size));
  for (std::size_t t = 0; t < work.tokens.size(); ++t) {
    const auto* row = weights_.embedding.row(static_cast<std::uint32_t>(work.tokens[t]));
    const auto& format = *weights_.embedding.format;
    format.decode(row, config_.hidden_size / format.block_elements, hidden_[t].data());
  }
  const StageEvent event{-1, Stage::embedding, work.tokens.size() * weights_.embedding.row_bytes(), 0};
  stages.end(event);
  stages.values(event, joined(hidden_), config_.hidden_size);
  for (int layer = 0; layer < static_cast<int>(config_.layers); ++layer) {
    run_attention(work, layer, stages);
    run_ffn(layer, stages);
  }
  run_head(work, head, stages);
}

void ReferenceExecutor::run_attention(const StepWork& work, int layer, cpu::Stages& stages) {
  const auto& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const auto normed = norm({layer, Stage::attention_norm}, hidden_, weights.attention_norm, stages);
  auto query = project({layer, Stage::query}, weights.query, normed.weighted, &normed.inverse_rms, stages);
  auto key = project({layer, Stage::key}, weights.key, normed.weighted, &normed.inverse_rms, stages);
  const auto value =
      project({layer, Stage::value}, weights.value, normed.weighted, &normed.inverse_rms, stages);
  norm_heads({layer, Stage::query_norm}, query, weights.query_norm, stages);
  norm_heads({layer, Stage::key_norm}, key, weights.key_norm, stages);
  rotate_heads({layer, Stage::rope_query}, query, work, stages);
  rotate_heads({layer, Stage::rope_key}, key, work, stages);
  append_kv({layer, Stage::append_kv}, key, value, work, stages);
  const auto mixed = attend({layer, Stage::attention}, query, work, stages);
  const auto output =
      project({layer, Stage::attention_output}, weights.attention_output, mixed, nullptr, stages);
  add_residual({layer, Stage::attention_residual}, output, stages);
}

void ReferenceExecutor::run_ffn(int layer, cpu::Stages& stages) {
  const auto& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const auto normed = norm({layer, Stage::ffn_norm}, hidden_, weights.ffn_norm, stages);
  auto gate = project({layer, Stage::gate}, weights.gate, normed.weighted, &normed.inverse_rms, stages);
  const auto up = project({layer, Stage::up}, weights.up, normed.weighted, &normed.inverse_rms, stages);
  const StageEvent event{layer, Stage::swiglu};
  stages.begin(event);
  for (std::size_t t = 0; t < gate.size(); ++t) {
    for (std::size_t i = 0; i < gate[t].size(); ++i) gate[t][i] = arith::swiglu(gate[t][i], up[t][i]);
  }
  stages.end(event);
  stages.values(event, joined(gate), config_.ffn_size);
  const auto down = project({layer, Stage::down}, weights.down, gate, nullptr, stages);
  add_residual({layer, Stage::ffn_residual}, down, stages);
}

void ReferenceExecutor::run_head(const StepWork& work, HeadConsumer& head, cpu::Stages& stages) {
  const auto& head_tokens = work.plan.head_tokens;
  if (head_tokens.empty()) return;
  Vectors states;
  for (const auto token : head_tokens) states.push_back(hidden_[token]);
  const auto normed = norm({-1, Stage::final_norm}, states, weights_.final_norm, stages);
  const auto values = normed.values();
  const StageEvent event{-1, Stage::lm_head, weights_.lm_head.total_bytes(), 0};
  if (work.plan.needs_lm_head) stages.begin(event);
  for (std::uint32_t row = 0; row < head_tokens.size(); ++row) {
    head.take_hidden(row,
                     std::span(values).subspan(std::size_t{row} * config_.hidden_size, config_.hidden_size));
    const bool last = row + 1 == head_tokens.size();
    if (!head.wants_logits(row)) {
      if (last && work.plan.needs_lm_head) stages.end(event);
      continue;
    }
    const auto logits = project_vector(weights_.lm_head, normed.weighted[row], &normed.inverse_rms[row]);
    if (last) stages.end(event);
    stages.values(event, logits, config_.vocab_size);
    head.take_logits(row, logits);
  }
}

std::vector<float> ReferenceExecutor::Normed::values() const {
  std::vector<float> result;
  for (std::size_t t = 0; t < weighted.size(); ++t) {
    for (const float value : weighted[t]) result.push_back(multiply(value, inverse_rms[t]));
  }
  return result;
}

ReferenceExecutor::Normed ReferenceExecutor::norm(StageEvent event, const Vectors& x,
                                                  std::span<const float> weight, cpu::Stages& stages) const {
  stages.begin(event);
  Normed normed{x, {}};
  for (std::size_t t = 0; t < x.size(); ++t) {
    for (std::size_t i = 0; i < weight.size(); ++i) normed.weighted[t][i] = multiply(x[t][i], weight[i]);
    normed.inverse_rms.push_back(arith::inverse_rms(x[t], inverse_of(weight.size()), config_.rms_epsilon));
  }
  stages.end(event);
  stages.values(event, normed.values(), weight.size());
  return normed;
}

ReferenceExecutor::Vectors ReferenceExecutor::project(StageEvent event, const Matrix& matrix,
                                                      const Vectors& x, const std::vector<float>* factors,
                                                      cpu::Stages& stages) {
  event.bytes = matrix.total_bytes();
  event.operations = std::uint64_t{2} * matrix.rows * matrix.columns * x.size();
  stages.begin(event);
  Vectors y;
  for (std::size_t t = 0; t < x.size(); ++t) {
    y.push_back(project_vector(matrix, x[t], factors != nullptr ? &(*factors)[t] : nullptr));
  }
  stages.end(event);
  stages.values(event, joined(y), matrix.rows);
  return y;
}

void ReferenceExecutor::norm_heads(StageEvent event, Vectors& heads, std::span<const float> weight,
                                   cpu::Stages& stages) const {
  stages.begin(event);
  const std::size_t head_dim = config_.head_dim;
  for (auto& vector : heads) {
    for (std::size_t first = 0; first < vector.size(); first += head_dim) {
      const auto head = std::span(vector).subspan(first, head_dim);
      const float factor = arith::inverse_rms(head, inverse_of(head_dim), config_.rms_epsilon);
      for (std::size_t i = 0; i < head_dim; ++i) head[i] = multiply(multiply(head[i], factor), weight[i]);
    }
  }
  stages.end(event);
  stages.values(event, joined(heads), width_of(heads));
}

void ReferenceExecutor::rotate_heads(StageEvent event, Vectors& heads, const StepWork& work,
                                     cpu::Stages& stages) const {
  stages.begin(event);
  const std::size_t head_dim = config_.head_dim;
  std::vector<float> sine(head_dim / 2);
  std::vector<float> cosine(head_dim / 2);
  for (std::size_t t = 0; t < heads.size(); ++t) {
    rope_.fill(work.plan.positions[t], sine, cosine);
    for (std::size_t first = 0; first < heads[t].size(); first += head_dim) {
      arith::rotate(std::span(heads[t]).subspan(first, head_dim), sine, cosine);
    }
  }
  stages.end(event);
  stages.values(event, joined(heads), width_of(heads));
}

void ReferenceExecutor::append_kv(StageEvent event, const Vectors& keys, const Vectors& values,
                                  const StepWork& work, cpu::Stages& stages) {
  stages.begin(event);
  const std::size_t head_dim = config_.head_dim;
  const auto put = [&](std::span<const float> x, std::byte* values_at, std::byte* scales_at,
                       std::uint32_t offset) {
    const auto quantized = arith::quantize_vector(x);
    std::memcpy(values_at + offset * layout_.padded_dim, quantized.values.data(), quantized.values.size());
    std::memcpy(scales_at + offset * layout_.scale_blocks * sizeof(float), quantized.scales.data(),
                quantized.scales.size() * sizeof(float));
  };
  for (std::size_t t = 0; t < keys.size(); ++t) {
    const auto slot = work.plan.cache_slots[t];
    for (std::size_t kv_head = 0; kv_head < config_.kv_heads; ++kv_head) {
      auto* at = head_of(slot.block, static_cast<std::size_t>(event.layer), kv_head);
      put(std::span(keys[t]).subspan(kv_head * head_dim, head_dim), at, at + layout_.key_scales_offset(),
          slot.offset);
      put(std::span(values[t]).subspan(kv_head * head_dim, head_dim), at + layout_.values_offset(),
          at + layout_.value_scales_offset(), slot.offset);
    }
  }
  stages.end(event);
}

ReferenceExecutor::Vectors ReferenceExecutor::attend(StageEvent event, const Vectors& queries,
                                                     const StepWork& work, cpu::Stages& stages) const {
  const std::size_t head_dim = config_.head_dim;
  const std::size_t heads_per_kv_head = config_.heads / config_.kv_heads;
  for (const auto& row : work.plan.rows) {
    const std::uint64_t positions = std::uint64_t{row.first_position} + row.tokens;
    event.bytes += positions * config_.kv_heads * (layout_.head_bytes() / layout_.block_size);
  }
  stages.begin(event);
  Vectors mixed;
  for (std::size_t t = 0; t < queries.size(); ++t) {
    const auto table = work.table(work.plan.rows[work.plan.row_of_token[t]]);
    std::vector<float> outputs;
    for (std::size_t head = 0; head < config_.heads; ++head) {
      const auto query = std::span(queries[t]).subspan(head * head_dim, head_dim);
      const auto output = attend_head(query, table, work.plan.positions[t],
                                      static_cast<std::size_t>(event.layer), head / heads_per_kv_head);
      outputs.insert(outputs.end(), output.begin(), output.begin() + static_cast<std::ptrdiff_t>(head_dim));
    }
    mixed.push_back(std::move(outputs));
  }
  stages.end(event);
  stages.values(event, joined(mixed), config_.query_width());
  return mixed;
}

std::vector<float> ReferenceExecutor::attend_head(std::span<const float> query,
                                                  std::span<const std::uint32_t> table,
                                                  std::uint32_t position, std::size_t layer,
                                                  std::size_t kv_head) const {
  auto quantized = arith::quantize_vector(query);
  const float softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  for (float& scale : quantized.scales) scale = multiply(scale, softmax_scale);

  std::vector<arith::SplitResult> splits;
  std::vector<arith::QuantizedRow> keys;
  std::vector<arith::QuantizedRow> values;
  for (std::uint32_t p = 0; p <= position; ++p) {
    const auto offset = p % layout_.block_size;
    const auto* at = head_of(table[p / layout_.block_size], layer, kv_head);
    const auto row_at = [&](const std::byte* values_at, const std::byte* scales_at) {
      return arith::QuantizedRow{
          reinterpret_cast<const std::int8_t*>(values_at) + offset * layout_.padded_dim,
          reinterpret_cast<const float*>(scales_at) + offset * layout_.scale_blocks};
    };
    keys.push_back(row_at(at, at + layout_.key_scales_offset()));
    values.push_back(row_at(at + layout_.values_offset(), at + layout_.value_scales_offset()));
    if (keys.size() == arith::kSplit || p == position) {
      splits.push_back(arith::attend_split(quantized, keys, values));
      keys.clear();
      values.clear();
    }
  }
  return arith::merge_splits(splits);
}

void ReferenceExecutor::add_residual(StageEvent event, const Vectors& branch, cpu::Stages& stages) {
  stages.begin(event);
  for (std::size_t t = 0; t < hidden_.size(); ++t) {
    for (std::size_t i = 0; i < hidden_[t].size(); ++i) hidden_[t][i] = add(hidden_[t][i], branch[t][i]);
  }
  stages.end(event);
  stages.values(event, joined(hidden_), config_.hidden_size);
}

}  // namespace inferno::reference
