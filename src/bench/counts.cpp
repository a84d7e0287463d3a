#include "bench/counts.hpp"

#include <array>

namespace inferno::bench {
namespace {

std::array<const Matrix*, 7> matrices(const LayerWeights& layer) {
  return {&layer.query, &layer.key, &layer.value, &layer.attention_output,
          &layer.gate,  &layer.up,  &layer.down};
}

std::uint64_t norm_bytes(const std::vector<float>& norm) {
  return norm.size() * sizeof(float);
}

double elements(const Matrix& matrix) {
  return static_cast<double>(matrix.rows) * matrix.columns;
}

/// One-element blocks are floats of some width; all others hold integers with scales.
bool is_float_format(const Matrix& matrix) {
  return matrix.format->block_elements == 1;
}

}  // namespace

std::uint64_t weight_bytes_per_step(const ModelWeights& weights, bool tied_head, std::uint32_t rows) {
  std::uint64_t bytes = norm_bytes(weights.final_norm) + weights.lm_head.total_bytes();
  if (!tied_head) bytes += weights.embedding.row_bytes() * rows;
  for (const auto& layer : weights.layers) {
    bytes += norm_bytes(layer.attention_norm) + norm_bytes(layer.query_norm) + norm_bytes(layer.key_norm) +
             norm_bytes(layer.ffn_norm);
    for (const auto* matrix : matrices(layer)) bytes += matrix->total_bytes();
  }
  return bytes;
}

double cache_bytes_per_position(const Executor& executor, const Limits& limits) {
  const auto positions = static_cast<double>(limits.blocks) * limits.block_size;
  return static_cast<double>(executor.memory_need(limits).cache_bytes) / positions;
}

double positions_read_per_step(std::uint32_t depth, std::uint32_t gen) {
  return gen == 0 ? 0.0 : depth + (gen + 1) / 2.0;
}

Operations prefill_operations(const ModelWeights& weights, bool contract, std::uint32_t rows,
                              std::uint32_t prompt) {
  Operations operations;
  const auto add = [&](const Matrix& matrix, double vectors) {
    auto& kind = contract && !is_float_format(matrix) ? operations.int8 : operations.float32;
    kind += 2.0 * elements(matrix) * vectors;
  };
  const double tokens = static_cast<double>(rows) * prompt;
  for (const auto& layer : weights.layers) {
    for (const auto* matrix : matrices(layer)) add(*matrix, tokens);
  }
  add(weights.lm_head, rows);
  return operations;
}

}  // namespace inferno::bench
