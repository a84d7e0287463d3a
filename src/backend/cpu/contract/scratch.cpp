#include "backend/cpu/contract/scratch.hpp"

#include <algorithm>

namespace inferno::cpu {
namespace {

/// Counts of everything for given limits.
struct Sizes {
  std::uint64_t tokens, input_tokens, hidden, qkv, query, ffn, widest, blocks, half, head_values, head_blocks,
      head_rows, logits;

  Sizes(const ModelConfig& config, const Limits& limits)
      : tokens(limits.max_tokens),
        input_tokens(tokens + QuantizedBatch::kSpareTokens),
        hidden(config.hidden_size),
        qkv(std::uint64_t{config.query_width()} + std::uint64_t{2} * config.kv_width()),
        query(config.query_width()),
        ffn(config.ffn_size),
        widest((std::max({hidden, query, ffn}) + 31) / 32 * 32),
        blocks(widest / 32),
        half(config.head_dim / 2),
        head_values(std::uint64_t{config.heads} * ((std::uint64_t{config.head_dim} + 31) / 32 * 32)),
        head_blocks(head_values / 32),
        head_rows(std::min(limits.max_outputs, limits.max_tokens)),
        logits(std::min<std::uint64_t>(head_rows, Scratch::kHeadPiece) * config.vocab_size) {}
};

}  // namespace

Scratch::Scratch(const ModelConfig& config, const Limits& limits) {
  const Sizes n(config, limits);
  hidden = AlignedBuffer<float>(n.tokens * n.hidden);
  qkv = AlignedBuffer<float>(n.tokens * n.qkv);
  mixed = AlignedBuffer<float>(n.tokens * n.query);
  gate = AlignedBuffer<float>(n.tokens * n.ffn);
  up = AlignedBuffer<float>(n.tokens * n.ffn);
  branch = AlignedBuffer<float>(n.tokens * n.hidden);
  factors = AlignedBuffer<float>(n.tokens);
  weighted = AlignedBuffer<float>(n.tokens * n.widest);
  input_values = AlignedBuffer<std::int8_t>(n.input_tokens * n.widest);
  input_scales = AlignedBuffer<float>(n.input_tokens * n.blocks);
  input_offsets = AlignedBuffer<std::int32_t>(n.input_tokens * n.blocks);
  sine = AlignedBuffer<float>(n.tokens * n.half);
  cosine = AlignedBuffer<float>(n.tokens * n.half);
  query_values = AlignedBuffer<std::int8_t>(n.tokens * n.head_values);
  query_scales = AlignedBuffer<float>(n.tokens * n.head_blocks);
  query_offsets = AlignedBuffer<std::int32_t>(n.tokens * n.head_blocks);
  head_states = AlignedBuffer<float>(n.head_rows * n.hidden);
  logits = AlignedBuffer<float>(n.logits);
}

std::uint64_t Scratch::bytes(const ModelConfig& config, const Limits& limits) {
  const Sizes n(config, limits);
  const auto floats = n.tokens * (2 * n.hidden + n.qkv + n.query + 2 * n.ffn + 1 + n.widest + 2 * n.half +
                                  2 * n.head_blocks) +
                      2 * n.input_tokens * n.blocks + n.head_rows * n.hidden + n.logits;
  return floats * sizeof(float) + n.input_tokens * n.widest + n.tokens * n.head_values;
}

QuantizedBatch Scratch::input(std::uint32_t width) const {
  return {.values = input_values.data(),
          .scales = input_scales.data(),
          .offsets = input_offsets.data(),
          .columns = (width + 31) / 32 * 32};
}

}  // namespace inferno::cpu
