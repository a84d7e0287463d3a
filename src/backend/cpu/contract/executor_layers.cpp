#include <algorithm>
#include <array>
#include <vector>

#include "arith/vectors.hpp"
#include "backend/cpu/contract/executor.hpp"

namespace inferno::cpu {
namespace {

StageEvent product_event(int layer, Stage stage, const CpuMatrix& matrix, std::size_t tokens) {
  return {layer, stage, matrix.source.total_bytes(),
          std::uint64_t{2} * matrix.rows() * matrix.source.columns * tokens};
}

/// Shows rows of `width` floats that stand `stride` apart.
void show_strided(Stages& stages, const StageEvent& event, const float* y, std::size_t tokens,
                  std::size_t width, std::size_t stride) {
  if (!stages.wants_values()) return;
  std::vector<float> rows;
  rows.reserve(tokens * width);
  for (std::size_t t = 0; t < tokens; ++t) rows.insert(rows.end(), y + t * stride, y + t * stride + width);
  stages.values(event, rows, width);
}

/// Shows what a norm means: the weighted values times 1 / rms.
void show_normed(Stages& stages, const StageEvent& event, const float* weighted, const float* factors,
                 std::size_t tokens, std::size_t width) {
  if (!stages.wants_values()) return;
  std::vector<float> rows(tokens * width);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = weighted[i] * factors[i / width];
  stages.values(event, rows, width);
}

}  // namespace

void CpuExecutor::run_embedding(const StepWork& work, Stages& stages) {
  const auto& embedding = model_.weights.embedding;
  const std::size_t width = config_.hidden_size;
  const std::size_t tokens = work.tokens.size();
  const std::size_t half = config_.head_dim / 2;
  const StageEvent event{-1, Stage::embedding, tokens * embedding.row_bytes(), 0};
  stages.run(event, {scratch_.hidden.data(), tokens * width}, width, [&] {
    for_shares(tokens, tokens * width, [&](std::size_t begin, std::size_t end) {
      for (auto t = begin; t < end; ++t) {
        embedding.format->decode(embedding.row(static_cast<std::uint32_t>(work.tokens[t])),
                                 width / embedding.format->block_elements,
                                 scratch_.hidden.data() + t * width);
        rope_.fill(work.plan.positions[t], {scratch_.sine.data() + t * half, half},
                   {scratch_.cosine.data() + t * half, half});
      }
    });
  });
}

/// hidden += O(attention(norm(hidden))).
void CpuExecutor::run_attention(const StepWork& work, int layer, Stages& stages) {
  const auto index = static_cast<std::size_t>(layer);
  const auto& weights = weights_.layers()[index];
  const std::size_t tokens = work.tokens.size();
  const std::array<const CpuMatrix*, 3> readers{&weights.query, &weights.key, &weights.value};

  const auto x =
      norm_input({layer, Stage::attention_norm}, weights.norms->attention_norm, readers, tokens, stages);

  project_qkv(weights, x, tokens, layer, stages);
  // A row of one token sees its own key and those before it: the KV head's item can prepare itself.
  const bool prepare_inside = !stages.observed() && work.plan.rows.size() == tokens;
  if (!prepare_inside) prepare_heads(work, layer, stages);
  stages.run(attention_event(work, layer), {scratch_.mixed.data(), tokens * config_.query_width()},
             config_.query_width(), [&] { attend(work, index, prepare_inside); });

  const auto& output = weights.attention_output;
  const auto mixed = input(scratch_.mixed.data(), tokens, config_.query_width(), output.is_packed());
  project_back(product_event(layer, Stage::attention_output, output, tokens), Stage::attention_residual,
               output, mixed, tokens, stages);
}

/// hidden += down(silu(gate(norm(hidden))) * up(norm(hidden))).
void CpuExecutor::run_ffn(const StepWork& work, int layer, Stages& stages) {
  const auto& weights = weights_.layers()[static_cast<std::size_t>(layer)];
  const std::size_t tokens = work.tokens.size();
  const std::size_t ffn_size = config_.ffn_size;
  const std::array<const CpuMatrix*, 2> readers{&weights.gate, &weights.up};
  const Product gate{&weights.gate, scratch_.gate.data(), ffn_size};
  const Product up{&weights.up, scratch_.up.data(), ffn_size};

  const auto x = norm_input({layer, Stage::ffn_norm}, weights.norms->ffn_norm, readers, tokens, stages);

  if (!fuses(stages)) {
    run_product(product_event(layer, Stage::gate, weights.gate, tokens), gate, x, tokens, stages);
    run_product(product_event(layer, Stage::up, weights.up, tokens), up, x, tokens, stages);
    const StageEvent event{layer, Stage::swiglu, 0, kSwigluOperations * tokens * ffn_size};
    stages.run(event, {scratch_.gate.data(), tokens * ffn_size}, ffn_size, [&] {
      for_shares(tokens * ffn_size, tokens * ffn_size, [&](std::size_t begin, std::size_t end) {
        kernels_.swiglu(scratch_.gate.data() + begin, scratch_.up.data() + begin, end - begin);
      });
    });
  } else {
    const auto gate_and_up = [&](unsigned part, unsigned parts) {
      const auto share = share_of(weights.gate.panels(), part, parts);
      multiply(gate, share.begin, share.end, x, tokens);
      multiply(up, share.begin, share.end, x, tokens);
      const auto column = share.begin * kPanelRows;
      const auto end = std::min(share.end * kPanelRows, ffn_size);
      for (std::size_t t = 0; t < tokens && column < end; ++t) {
        kernels_.swiglu(gate.y + t * ffn_size + column, up.y + t * ffn_size + column, end - column);
      }
    };
    policy_->run(gate_and_up, parts_per_thread(weights.gate.panels()));
  }

  const auto activated = input(scratch_.gate.data(), tokens, config_.ffn_size, weights.down.is_packed());
  project_back(product_event(layer, Stage::down, weights.down, tokens), Stage::ffn_residual, weights.down,
               activated, tokens, stages);
}

/// Logits of the tokens that something is asked of, in pieces.
void CpuExecutor::run_head(const StepWork& work, HeadConsumer& head, Stages& stages) {
  const auto& head_tokens = work.plan.head_tokens;
  const auto rows = static_cast<std::uint32_t>(head_tokens.size());
  if (rows == 0) return;
  const std::size_t width = config_.hidden_size;
  const std::size_t vocab_size = config_.vocab_size;
  const auto& matrix = weights_.lm_head();
  float* gathered = scratch_.branch.data();  // [rows][D]; free by now
  float* states = scratch_.head_states.data();

  const StageEvent norm_event{-1, Stage::final_norm, width * sizeof(float), kNormOperations * rows * width};
  stages.begin(norm_event);
  for (std::uint32_t row = 0; row < rows; ++row) {
    const float* hidden = scratch_.hidden.data() + std::size_t{head_tokens[row]} * width;
    std::copy(hidden, hidden + width, gathered + row * width);
  }
  const auto normed = norm(gathered, rows, model_.weights.final_norm, false, true);
  for (std::size_t i = 0; i < rows * width; ++i) states[i] = normed.floats[i] * normed.factors[i / width];
  stages.end(norm_event);
  stages.values(norm_event, {states, rows * width}, width);
  const auto state_of = [&](std::uint32_t row) {
    return std::span<const float>(states + std::size_t{row} * width, width);
  };
  if (!work.plan.needs_lm_head) {
    for (std::uint32_t row = 0; row < rows; ++row) head.take_hidden(row, state_of(row));
    return;
  }

  auto event = product_event(-1, Stage::lm_head, matrix, rows);
  event.bytes *= (rows + Scratch::kHeadPiece - 1) / Scratch::kHeadPiece;
  stages.begin(event);
  for (std::uint32_t first = 0; first < rows; first += Scratch::kHeadPiece) {
    const auto end = std::min(first + Scratch::kHeadPiece, rows);
    // The rows that need logits move together; no row moves over one that is still needed.
    std::array<std::uint32_t, Scratch::kHeadPiece> wanted{};
    std::uint32_t count = 0;
    for (auto row = first; row < end; ++row) {
      if (!head.wants_logits(row)) continue;
      const float* from = gathered + std::size_t{row} * width;
      std::copy(from, from + width, gathered + std::size_t{first + count} * width);
      wanted[count++] = row;
    }
    const auto x = norm(gathered + std::size_t{first} * width, count, model_.weights.final_norm,
                        matrix.is_packed(), !matrix.is_packed());
    const Product product{&matrix, scratch_.logits.data(), vocab_size};
    if (count > 0) multiply_all({&product, 1}, x, count);
    if (end == rows) stages.end(event);
    stages.values(event, {scratch_.logits.data(), count * vocab_size}, vocab_size);
    std::uint32_t next = 0;
    for (auto row = first; row < end; ++row) {
      head.take_hidden(row, state_of(row));
      if (next == count || wanted[next] != row) continue;
      const auto* logits = scratch_.logits.data() + next++ * vocab_size;
      if (head.wants_logits(row)) head.take_logits(row, {logits, vocab_size});
    }
  }
}

/// The residual stream, normed for the matrices that read it: quantized, as floats, or both.
CpuExecutor::Input CpuExecutor::norm_input(StageEvent event, const std::vector<float>& weight,
                                           std::span<const CpuMatrix* const> readers, std::size_t tokens,
                                           Stages& stages) {
  const std::size_t width = config_.hidden_size;
  const auto packed =
      std::count_if(readers.begin(), readers.end(), [](const auto* matrix) { return matrix->is_packed(); });
  const bool floats = static_cast<std::size_t>(packed) < readers.size();
  event.bytes = width * sizeof(float);
  event.operations = kNormOperations * tokens * width;
  stages.begin(event);
  const auto x = norm(scratch_.hidden.data(), tokens, weight, packed > 0, floats || stages.wants_values());
  stages.end(event);
  show_normed(stages, event, x.floats, x.factors, tokens, width);
  return x;
}

void CpuExecutor::run_product(StageEvent event, const Product& product, const Input& x, std::size_t tokens,
                              Stages& stages) {
  stages.begin(event);
  multiply_all({&product, 1}, x, tokens);
  stages.end(event);
  show_strided(stages, event, product.y, tokens, product.matrix->rows(), product.stride);
}

/// Query, key and value rows are one list of panels unless somebody watches.
void CpuExecutor::project_qkv(const CpuLayer& layer, const Input& x, std::size_t tokens, int index,
                              Stages& stages) {
  const std::size_t query_width = config_.query_width();
  const std::size_t stride = query_width + 2 * std::size_t{config_.kv_width()};
  float* y = scratch_.qkv.data();
  const std::array products{Product{&layer.query, y, stride}, Product{&layer.key, y + query_width, stride},
                            Product{&layer.value, y + query_width + config_.kv_width(), stride}};
  if (fuses(stages)) return multiply_all(products, x, tokens);
  constexpr std::array kStages{Stage::query, Stage::key, Stage::value};
  for (std::size_t i = 0; i < products.size(); ++i) {
    run_product(product_event(index, kStages[i], *products[i].matrix, tokens), products[i], x, tokens,
                stages);
  }
}

/// From rows of query, key and value to quantized queries and a longer cache, stage by stage if somebody
/// watches.
void CpuExecutor::prepare_heads(const StepWork& work, int layer, Stages& stages) {
  const std::size_t tokens = work.tokens.size();
  const std::size_t items = tokens * shape_.kv_heads;
  const auto index = static_cast<std::size_t>(layer);
  const std::size_t query_width = config_.query_width();
  const std::size_t stride = query_width + 2 * std::size_t{config_.kv_width()};
  if (!stages.observed()) {
    return for_shares(items, tokens * stride, [&](std::size_t begin, std::size_t end) {
      for (auto item = begin; item < end; ++item)
        prepare_group(work, index, item / shape_.kv_heads, item % shape_.kv_heads);
    });
  }
  // The kernel norms and rotates at once; stage by stage the contract's own definitions do the same.
  const auto& norms = *weights_.layers()[index].norms;
  const std::size_t half = config_.head_dim / 2;
  const float inverse_length = 1.0F / static_cast<float>(config_.head_dim);
  float* y = scratch_.qkv.data();
  /// One stage over the heads that stand in columns [column, column + width) of every token.
  const auto run = [&](Stage stage, std::uint64_t operations, std::size_t column, std::size_t width,
                       const auto& each) {
    const StageEvent event{layer, stage, 0, operations * tokens * width};
    stages.begin(event);
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t first = column; first < column + width; first += config_.head_dim) {
        each(t, std::span<float>(y + t * stride + first, config_.head_dim));
      }
    }
    stages.end(event);
    show_strided(stages, event, y + column, tokens, width, stride);
  };
  const auto norm_with = [&](const std::vector<float>& weight) {
    return [&](std::size_t, std::span<float> head) {
      const float factor = arith::inverse_rms(head, inverse_length, config_.rms_epsilon);
      for (std::size_t i = 0; i < head.size(); ++i)
        head[i] = arith::multiply(arith::multiply(head[i], factor), weight[i]);
    };
  };
  const auto rotate = [&](std::size_t t, std::span<float> head) {
    arith::rotate(head, {scratch_.sine.data() + t * half, half}, {scratch_.cosine.data() + t * half, half});
  };
  const std::size_t kv_width = config_.kv_width();
  run(Stage::query_norm, kNormOperations, 0, query_width, norm_with(norms.query_norm));
  run(Stage::key_norm, kNormOperations, query_width, kv_width, norm_with(norms.key_norm));
  run(Stage::rope_query, kRopeOperations, 0, query_width, rotate);
  run(Stage::rope_key, kRopeOperations, query_width, kv_width, rotate);
  stages.run({layer, Stage::append_kv}, {}, 0, [&] {
    for (std::size_t item = 0; item < items; ++item) {
      store_group(work, index, item / shape_.kv_heads, item % shape_.kv_heads);
    }
  });
}

/// A product and the residual that takes it: the rows of a share are added as soon as they are done, unless
/// somebody watches.
void CpuExecutor::project_back(StageEvent product_event, Stage residual, const CpuMatrix& matrix,
                               const Input& x, std::size_t tokens, Stages& stages) {
  const std::size_t width = config_.hidden_size;
  const Product product{&matrix, scratch_.branch.data(), width};
  float* hidden = scratch_.hidden.data();
  const auto add = [&](std::size_t column, std::size_t end) {
    for (std::size_t t = 0; t < tokens && column < end; ++t) {
      kernels_.add(hidden + t * width + column, product.y + t * width + column, end - column);
    }
  };
  if (!fuses(stages)) {
    run_product(product_event, product, x, tokens, stages);
    const StageEvent event{product_event.layer, residual, 0, tokens * width};
    stages.run(event, {hidden, tokens * width}, width, [&] { add(0, width); });
    return;
  }
  const auto multiply_and_add = [&](unsigned part, unsigned parts) {
    const auto share = share_of(matrix.panels(), part, parts);
    multiply(product, share.begin, share.end, x, tokens);
    add(share.begin * kPanelRows, std::min(share.end * kPanelRows, width));
  };
  policy_->run(multiply_and_add, parts_per_thread(matrix.panels()));
}

StageEvent CpuExecutor::attention_event(const StepWork& work, int layer) const {
  StageEvent event{layer, Stage::attention};
  const auto& layout = cache_.layout();
  for (const auto& row : work.plan.rows) {
    // Each position of a row once, though every token of a chunk looks at it.
    const auto positions = std::uint64_t{row.first_position} + row.tokens;
    event.bytes += positions * shape_.kv_heads * (layout.head_bytes() / layout.block_size);
  }
  for (const auto position : work.plan.positions) {
    event.operations += (std::uint64_t{position} + 1) * 4 * config_.query_width();
  }
  return event;
}

}  // namespace inferno::cpu
