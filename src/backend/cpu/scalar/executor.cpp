#include "backend/cpu/scalar/executor.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "backend/cpu/memory_check.hpp"
#include "backend/cpu/scalar/attention.hpp"
#include "backend/cpu/scalar/elementwise.hpp"
#include "backend/cpu/scalar/matmul.hpp"

namespace inferno::scalar {
namespace {

/// The shared part's, completed.
Capabilities scalar_capabilities(Capabilities can) {
  can.backend = "scalar";
  can.device = ScalarExecutor::kDevice;
  can.observation = true;
  can.cache_format = "float32";
  return can;
}

std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  return a != 0 && b > kMost / a ? kMost : a * b;
}

}  // namespace

ScalarExecutor::ScalarExecutor(const LoadedModel& model)
    : DeferredExecutor(model.config, scalar_capabilities(shared_capabilities())),
      config_(model.config),
      weights_(model.weights),
      rope_(model.config) {}

MemoryNeed ScalarExecutor::memory_need(const Limits& limits) const {
  const std::uint64_t block = Cache::block_floats(config_, limits.block_size) * sizeof(float);
  return {.cache_bytes = saturating_product(block, limits.blocks),
          .scratch_bytes = Scratch::bytes(config_, limits) + slot_bytes(limits),
          .weight_bytes = 0};  // rows are decoded from the mapped file as they are used
}

void ScalarExecutor::allocate(const Limits& limits) {
  cache_ = Cache();
  scratch_ = Scratch();
  check_memory("scalar", memory_need(limits), limits);
  Scratch scratch(config_, limits);
  cache_ = Cache(config_, limits.block_size, limits.blocks);
  scratch_ = std::move(scratch);
}

std::size_t ScalarExecutor::block_bytes() const {
  return cache_.block(0).size_bytes();
}

void ScalarExecutor::copy_block(std::uint32_t source, std::uint32_t target) {
  const auto from = std::as_const(cache_).block(source);
  std::copy(from.begin(), from.end(), cache_.block(target).begin());
}

void ScalarExecutor::read_block(std::uint32_t block, std::span<std::byte> target) const {
  const auto from = std::as_bytes(cache_.block(block));
  std::copy(from.begin(), from.end(), target.begin());
}

void ScalarExecutor::write_block(std::uint32_t block, std::span<const std::byte> source) {
  std::copy(source.begin(), source.end(), std::as_writable_bytes(cache_.block(block)).begin());
}

void ScalarExecutor::run_step(const StepWork& work, HeadConsumer& head) {
  Stages stages(work.observer);
  run_embedding(work, stages);
  for (int layer = 0; layer < static_cast<int>(config_.layers); ++layer) {
    run_attention(work, layer, stages);
    run_ffn(work, layer, stages);
  }
  run_head(work, head, stages);
}

/// hidden [T, D] = the embedding's row of each token. The step's sines and cosines are made here, too: all
/// layers use the same.
void ScalarExecutor::run_embedding(const StepWork& work, Stages& stages) {
  const std::size_t tokens = work.tokens.size();
  const std::size_t hidden_size = config_.hidden_size;
  const auto hidden = scratch_.hidden.first(tokens * hidden_size);
  const StageEvent event{-1, Stage::embedding, tokens * weights_.embedding.row_bytes(), 0};
  stages.run(event, hidden, hidden_size, [&] {
    for (std::size_t t = 0; t < tokens; ++t) {
      decode_row(weights_.embedding, static_cast<std::uint32_t>(work.tokens[t]),
                 hidden.subspan(t * hidden_size, hidden_size));
    }
  });

  const std::size_t half = config_.head_dim / 2;
  for (std::size_t t = 0; t < tokens; ++t) {
    rope_.fill(work.plan.positions[t], scratch_.sine.span().subspan(t * half, half),
               scratch_.cosine.span().subspan(t * half, half));
  }
}

/// hidden += O(attention(norm(hidden))).
void ScalarExecutor::run_attention(const StepWork& work, int layer, Stages& stages) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const std::size_t tokens = work.tokens.size();
  const auto hidden = scratch_.hidden.first(tokens * config_.hidden_size);        // [T, D]
  const auto normed = scratch_.normed.first(tokens * config_.hidden_size);        // [T, D]
  const auto query = scratch_.query.first(tokens * config_.query_width());        // [T, H, E]
  const auto key = scratch_.key.first(tokens * config_.kv_width());               // [T, K, E]
  const auto value = scratch_.value.first(tokens * config_.kv_width());           // [T, K, E]
  const auto mixed = scratch_.mixed.first(tokens * config_.query_width());        // [T, H, E]
  const auto projected = scratch_.projected.first(tokens * config_.hidden_size);  // [T, D]

  norm({layer, Stage::attention_norm}, hidden, weights.attention_norm, normed, config_.hidden_size, stages);
  project({layer, Stage::query}, weights.query, normed, query, stages);
  project({layer, Stage::key}, weights.key, normed, key, stages);
  project({layer, Stage::value}, weights.value, normed, value, stages);
  // Queries and keys are normed head by head, all heads with the same E weights, before they are rotated.
  norm({layer, Stage::query_norm}, query, weights.query_norm, query, config_.query_width(), stages);
  norm({layer, Stage::key_norm}, key, weights.key_norm, key, config_.kv_width(), stages);
  rotate({layer, Stage::rope_query}, query, config_.query_width(), stages);
  rotate({layer, Stage::rope_key}, key, config_.kv_width(), stages);
  append_kv({layer, Stage::append_kv}, work, stages);
  attend({layer, Stage::attention}, work, stages);
  project({layer, Stage::attention_output}, weights.attention_output, mixed, projected, stages);
  add_residual({layer, Stage::attention_residual}, projected, stages);
}

/// hidden += down(silu(gate(norm(hidden))) * up(norm(hidden))).
void ScalarExecutor::run_ffn(const StepWork& work, int layer, Stages& stages) {
  const LayerWeights& weights = weights_.layers[static_cast<std::size_t>(layer)];
  const std::size_t tokens = work.tokens.size();
  const auto hidden = scratch_.hidden.first(tokens * config_.hidden_size);        // [T, D]
  const auto normed = scratch_.normed.first(tokens * config_.hidden_size);        // [T, D]
  const auto gate = scratch_.gate.first(tokens * config_.ffn_size);               // [T, F]
  const auto up = scratch_.up.first(tokens * config_.ffn_size);                   // [T, F]
  const auto projected = scratch_.projected.first(tokens * config_.hidden_size);  // [T, D]

  norm({layer, Stage::ffn_norm}, hidden, weights.ffn_norm, normed, config_.hidden_size, stages);
  project({layer, Stage::gate}, weights.gate, normed, gate, stages);
  project({layer, Stage::up}, weights.up, normed, up, stages);
  const StageEvent event{layer, Stage::swiglu, 0, kSwigluOperations * gate.size()};
  stages.run(event, gate, config_.ffn_size, [&] { swiglu(gate, up); });
  project({layer, Stage::down}, weights.down, gate, projected, stages);
  add_residual({layer, Stage::ffn_residual}, projected, stages);
}

/// The final norm of the tokens that something is asked of, and their logits where those are wanted.
void ScalarExecutor::run_head(const StepWork& work, HeadConsumer& head, Stages& stages) {
  const auto& head_tokens = work.plan.head_tokens;
  const auto rows = static_cast<std::uint32_t>(head_tokens.size());
  if (rows == 0) return;
  const std::size_t hidden_size = config_.hidden_size;
  const auto final = scratch_.final.first(rows * hidden_size);  // [N, D]
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::copy_n(scratch_.hidden.data() + head_tokens[row] * hidden_size, hidden_size,
                scratch_.final.data() + row * hidden_size);
  }
  norm({-1, Stage::final_norm}, final, weights_.final_norm, final, hidden_size, stages);
  if (work.plan.needs_lm_head) {
    run_lm_head(rows, head, stages);
  } else {
    for (std::uint32_t row = 0; row < rows; ++row) {
      head.take_hidden(row, final.subspan(row * hidden_size, hidden_size));
    }
  }
}

/// logits [V] = LM head . final, for the rows that want them, in pieces of kHeadPiece rows.
void ScalarExecutor::run_lm_head(std::uint32_t rows, HeadConsumer& head, Stages& stages) {
  const std::size_t hidden_size = config_.hidden_size;
  const std::size_t vocab_size = config_.vocab_size;
  const Matrix& weight = weights_.lm_head;
  StageEvent event{-1, Stage::lm_head};
  event.bytes = (rows + kHeadPiece - 1) / kHeadPiece * weight.total_bytes();
  for (std::uint32_t row = 0; row < rows; ++row) {
    if (head.wants_logits(row)) event.operations += std::uint64_t{2} * weight.rows * weight.columns;
  }
  stages.begin(event);
  for (std::uint32_t first = 0; first < rows; first += kHeadPiece) {
    const std::uint32_t end = std::min(first + kHeadPiece, rows);
    std::array<bool, kHeadPiece> wanted{};
    std::size_t count = 0;
    for (std::uint32_t row = first; row < end; ++row) {
      wanted[row - first] = head.wants_logits(row);
      if (!wanted[row - first]) continue;
      std::copy_n(scratch_.final.data() + row * hidden_size, hidden_size,
                  scratch_.head_input.data() + count * hidden_size);
      ++count;
    }
    const auto logits = scratch_.logits.first(count * vocab_size);  // [count, V]
    matmul(weight, scratch_.head_input.span(), count, logits, scratch_.weight_row.span());
    if (end == rows) stages.end(event);  // choosing, which comes now, is not the head's
    stages.values(event, logits, vocab_size);

    std::size_t next = 0;
    for (std::uint32_t row = first; row < end; ++row) {
      head.take_hidden(row, scratch_.final.span().subspan(row * hidden_size, hidden_size));
      if (wanted[row - first]) head.take_logits(row, logits.subspan(next++ * vocab_size, vocab_size));
    }
  }
}

void ScalarExecutor::norm(StageEvent event, std::span<const float> x, std::span<const float> weight,
                          std::span<float> y, std::size_t width, Stages& stages) const {
  event.bytes = weight.size_bytes();
  event.operations = kNormOperations * x.size();
  stages.run(event, y, width, [&] { rms_norm(x, weight, config_.rms_epsilon, y); });
}

void ScalarExecutor::project(StageEvent event, const Matrix& weight, std::span<const float> x,
                             std::span<float> y, Stages& stages) {
  const std::size_t tokens = x.size() / weight.columns;
  event.bytes = weight.total_bytes();
  event.operations = std::uint64_t{2} * weight.rows * weight.columns * tokens;
  stages.run(event, y, weight.rows, [&] { matmul(weight, x, tokens, y, scratch_.weight_row.span()); });
}

void ScalarExecutor::rotate(StageEvent event, std::span<float> heads, std::size_t width, Stages& stages) {
  const std::size_t half = config_.head_dim / 2;
  event.operations = kRopeOperations * heads.size();
  stages.run(event, heads, width, [&] {
    for (std::size_t t = 0; t * width < heads.size(); ++t) {
      rope(heads.subspan(t * width, width), scratch_.sine.span().subspan(t * half, half),
           scratch_.cosine.span().subspan(t * half, half));
    }
  });
}

/// Puts the step's keys and values where the plan says.
void ScalarExecutor::append_kv(StageEvent event, const StepWork& work, Stages& stages) {
  const auto layer = static_cast<std::size_t>(event.layer);
  const std::size_t head_dim = config_.head_dim;
  stages.run(event, {}, 0, [&] {
    for (std::size_t t = 0; t < work.tokens.size(); ++t) {
      const CacheSlot slot = work.plan.cache_slots[t];
      for (std::size_t head = 0; head < config_.kv_heads; ++head) {
        const std::size_t from = t * config_.kv_width() + head * head_dim;
        const std::size_t to = slot.offset * head_dim;
        std::copy_n(scratch_.key.data() + from, head_dim, cache_.keys(slot.block, layer, head) + to);
        std::copy_n(scratch_.value.data() + from, head_dim, cache_.values(slot.block, layer, head) + to);
      }
    }
  });
}

void ScalarExecutor::attend(StageEvent event, const StepWork& work, Stages& stages) {
  const auto layer = static_cast<std::size_t>(event.layer);
  const std::size_t width = config_.query_width();
  const std::size_t tokens = work.tokens.size();
  for (const RowPlan& row : work.plan.rows) {
    // What must be read at least: each position of a row once, though every token of a chunk looks at it.
    const std::uint64_t positions = std::uint64_t{row.first_position} + row.tokens;
    event.bytes += positions * 2 * config_.kv_width() * sizeof(float);
  }
  for (const std::uint32_t position : work.plan.positions) {
    event.operations += (std::uint64_t{position} + 1) * 4 * width;  // q . k, then p * v
  }
  stages.run(event, scratch_.mixed.first(tokens * width), width, [&] {
    for (std::size_t t = 0; t < tokens; ++t) {
      attention(config_, cache_, layer, work.table(work.plan.rows[work.plan.row_of_token[t]]),
                work.plan.positions[t], scratch_.query.span().subspan(t * width, width),
                scratch_.mixed.span().subspan(t * width, width), scratch_.partials.span());
    }
  });
}

void ScalarExecutor::add_residual(StageEvent event, std::span<const float> branch, Stages& stages) {
  const auto hidden = scratch_.hidden.first(branch.size());
  event.operations = branch.size();
  stages.run(event, hidden, config_.hidden_size, [&] { add(hidden, branch); });
}

}  // namespace inferno::scalar
