#pragma once

#include <cstdint>
#include <string>

#include "gguf/reader.hpp"

namespace inferno {

/// How rotary angles are stretched beyond the trained context.
struct RopeScaling {
  enum class Type : std::uint8_t { none, linear, yarn };
  Type type = Type::none;
  float factor = 1.0F;
  std::uint32_t original_context = 0;  ///< positions the base model was trained on (YaRN)
  float attention_factor = 0.0F;       ///< multiplies sine and cosine; 0: 0.1 ln(factor) + 1 for YaRN, else 1
  float beta_fast = 32.0F;             ///< YaRN: rotations above which a dimension is left alone
  float beta_slow = 1.0F;              ///< YaRN: rotations below which a dimension is fully scaled
};

/// The shape of a Qwen3 model, all of it read from the file. Names follow the field's own terms.
struct ModelConfig {
  std::string name;                  ///< general.name, or the file's name
  std::uint32_t layers = 0;          ///< L
  std::uint32_t hidden_size = 0;     ///< D
  std::uint32_t ffn_size = 0;        ///< F
  std::uint32_t heads = 0;           ///< H query heads
  std::uint32_t kv_heads = 0;        ///< K; divides H
  std::uint32_t head_dim = 0;        ///< E; even. H * E need not equal D
  std::uint32_t vocab_size = 0;      ///< V: rows of the embedding; may exceed the tokenizer's list
  std::uint32_t context_length = 0;  ///< positions the file says the model was trained for
  float rms_epsilon = 1e-6F;
  float rope_base = 1e6F;
  RopeScaling rope_scaling;
  bool tied_head = false;  ///< no output.weight: the LM head is the embedding

  std::uint32_t query_width() const { return heads * head_dim; }  ///< H * E
  std::uint32_t kv_width() const { return kv_heads * head_dim; }  ///< K * E
};

/// Reads and checks `qwen3.*` metadata. Throws Error naming the key, what was expected and what was
/// found; an architecture other than qwen3 names the supported ones.
ModelConfig read_config(const gguf::File& file);

}  // namespace inferno
