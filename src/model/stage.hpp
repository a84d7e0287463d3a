#pragma once

#include <cstdint>
#include <string_view>

namespace inferno {

/// The stages of a step, in execution order: the embedding, eighteen per layer, three at the end.
/// A trace of Qwen3-0.6B (28 layers) shows 28 * 18 + 3 = 507 stages after the embedding.
/// Backends may fuse or split them into dispatches; the names stay.
enum class Stage : std::uint8_t {
  embedding,
  // once per layer
  attention_norm,
  query,
  key,
  value,
  query_norm,
  key_norm,
  rope_query,
  rope_key,
  append_kv,
  attention,
  attention_output,
  attention_residual,
  ffn_norm,
  gate,
  up,
  swiglu,
  down,
  ffn_residual,
  // once per step
  final_norm,
  lm_head,
  argmax,
};

inline constexpr int kStageCount = static_cast<int>(Stage::argmax) + 1;
inline constexpr int kStagesPerLayer = 18;
/// Stages after the layers: final norm, LM head, argmax.
inline constexpr int kStagesAtEnd = 3;

/// Stages of one step after the embedding, as traces and `bench` count them.
constexpr int stages_per_step(int layers) {
  return layers * kStagesPerLayer + kStagesAtEnd;
}

/// The stage's name as traces and errors print it, e.g. "attention_norm".
std::string_view stage_name(Stage stage);

}  // namespace inferno
