#include "backend/cpu/scalar/scratch.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace inferno::scalar {
namespace {

struct Part {
  Buffer Scratch::*buffer;
  std::string_view name;
  std::uint64_t floats;
};

std::array<Part, 16> parts(const ModelConfig& config, const Limits& limits) {
  const std::uint64_t tokens = limits.max_tokens;
  const std::uint64_t head_rows = std::min(limits.max_tokens, limits.max_outputs);
  const std::uint64_t piece = std::min<std::uint64_t>(head_rows, kHeadPiece);
  const std::uint64_t hidden = config.hidden_size;
  const std::uint64_t query = config.query_width();
  const std::uint64_t ffn = config.ffn_size;
  return {{
      {&Scratch::hidden, "the hidden state", tokens * hidden},
      {&Scratch::normed, "the normed state", tokens * hidden},
      {&Scratch::query, "queries", tokens * query},
      {&Scratch::key, "keys", tokens * config.kv_width()},
      {&Scratch::value, "values", tokens * config.kv_width()},
      {&Scratch::mixed, "attention's result", tokens * query},
      {&Scratch::projected, "the projection", tokens * hidden},
      {&Scratch::gate, "the FFN's gate", tokens * ffn},
      {&Scratch::up, "the FFN's up projection", tokens * ffn},
      {&Scratch::sine, "sines", tokens * config.head_dim / 2},
      {&Scratch::cosine, "cosines", tokens * config.head_dim / 2},
      {&Scratch::partials, "partial softmax sums", std::uint64_t{2} * config.head_dim},
      {&Scratch::weight_row, "a row of weights", std::max({hidden, query, ffn})},
      {&Scratch::final, "the final state", head_rows * hidden},
      {&Scratch::head_input, "the head's input", piece * hidden},
      {&Scratch::logits, "logits", piece * config.vocab_size},
  }};
}

}  // namespace

Scratch::Scratch(const ModelConfig& config, const Limits& limits) {
  for (const Part& part : parts(config, limits)) this->*part.buffer = Buffer(part.name, part.floats);
}

std::uint64_t Scratch::bytes(const ModelConfig& config, const Limits& limits) {
  std::uint64_t sum = 0;
  for (const Part& part : parts(config, limits)) sum += part.floats * sizeof(float);
  return sum;
}

}  // namespace inferno::scalar
