#include "model/config.hpp"

#include <array>
#include <cmath>
#include <fmt/format.h>
#include <string_view>

#include "model/metadata_reader.hpp"
#include "model/rope_metadata.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"

namespace inferno {
namespace {

constexpr std::string_view kArchitecture = "qwen3";

// No model comes near these; they keep every product of two sizes far below 2^64 before the tensors'
// real sizes, which the reader has checked, bound them for good.
constexpr std::uint32_t kMaxLayers = 4096;
constexpr std::uint32_t kMaxWidth = 1U << 20U;
constexpr std::uint32_t kMaxHeads = 1U << 16U;
constexpr std::uint32_t kMaxContext = 1U << 30U;
constexpr std::uint64_t kMaxVocabulary = 1U << 30U;

void check_architecture(const gguf::File& file, const MetadataReader& metadata) {
  constexpr std::string_view kKey = "general.architecture";
  const gguf::Value* value = file.find(kKey);
  if (value == nullptr) {
    metadata.fail(fmt::format("metadata {} is missing; inferno supports {}", kKey, kArchitecture));
  }
  const auto* name = value->as_string();
  if (name == nullptr || *name != kArchitecture) {
    metadata.fail(
        fmt::format("metadata {} is {}; inferno supports {}", kKey, describe(*value), kArchitecture));
  }
}

/// Settings of other architectures that change what is computed. Leaving one out would give plausible but
/// wrong text, so each must be absent or hold the value that changes nothing.
void refuse_foreign_settings(const MetadataReader& metadata, std::uint32_t context_length) {
  struct Setting {
    std::string_view key;
    double neutral;
  };
  static constexpr std::array<Setting, 16> kSettings = {{
      {"expert_count", 0.0},
      {"expert_used_count", 0.0},
      {"attention.clamp_kqv", 0.0},
      {"attention.max_alibi_bias", 0.0},
      {"attention.scale", 0.0},
      {"attention.output_scale", 1.0},
      {"attention.temperature_scale", 0.0},
      {"attention.temperature_length", 0.0},
      {"attn_logit_softcapping", 0.0},
      {"final_logit_softcapping", 0.0},
      {"logit_scale", 1.0},
      {"embedding_scale", 1.0},
      {"residual_scale", 1.0},
      {"nextn_predict_layers", 0.0},
      {"n_deepstack_layers", 0.0},
      {"swin_norm", 0.0},
  }};
  for (const auto& [key, neutral] : kSettings) {
    const auto number = metadata.optional_number(key);
    if (number && *number != neutral) {
      metadata.fail(
          fmt::format("metadata {} is {}; inferno computes {} models without it and will not "
                      "ignore it (only {} is accepted)",
                      metadata.full_key(key), *number, kArchitecture, neutral));
    }
  }
  if (!metadata.optional_flag("attention.causal").value_or(true)) {
    metadata.fail(fmt::format("metadata {} is false; inferno computes causal attention only",
                              metadata.full_key("attention.causal")));
  }
  // A window as wide as the context hides nothing.
  constexpr std::string_view kWindow = "attention.sliding_window";
  const auto window = metadata.optional_number(kWindow);
  if (window && *window != 0.0 && *window < context_length) {
    metadata.fail(fmt::format("metadata {} is {}; inferno computes full attention only (context length {})",
                              metadata.full_key(kWindow), *window, context_length));
  }
}

std::uint32_t read_head_dim(const MetadataReader& metadata, const ModelConfig& config) {
  const auto key_length = metadata.optional_count("attention.key_length", kMaxWidth);
  const auto value_length = metadata.optional_count("attention.value_length", kMaxWidth);
  if (!key_length && config.hidden_size % config.heads != 0) {
    metadata.fail(fmt::format("metadata {} is missing and {} {} is not a multiple of {} {}",
                              metadata.full_key("attention.key_length"),
                              metadata.full_key("embedding_length"), config.hidden_size,
                              metadata.full_key("attention.head_count"), config.heads));
  }
  const std::uint32_t head_dim = key_length ? *key_length : config.hidden_size / config.heads;
  if (value_length && *value_length != head_dim) {
    metadata.fail(fmt::format("metadata {} is {}{} but {} is {}; inferno needs them equal",
                              metadata.full_key("attention.key_length"), head_dim,
                              key_length ? "" : " (missing: embedding_length / head_count)",
                              metadata.full_key("attention.value_length"), *value_length));
  }
  if (head_dim % 2 != 0) {
    metadata.fail(fmt::format("the head dimension is {} (metadata {}); rotary embedding needs an even one",
                              head_dim, metadata.full_key("attention.key_length")));
  }
  const auto rotated = metadata.optional_count("rope.dimension_count", kMaxWidth);
  if (rotated && *rotated != head_dim) {
    metadata.fail(
        fmt::format("metadata {} is {} but the head dimension is {}; inferno rotates whole heads only",
                    metadata.full_key("rope.dimension_count"), *rotated, head_dim));
  }
  return head_dim;
}

/// V is what the embedding has rows for: the tokenizer's list may be shorter (padded ids have no text), never
/// longer (its last ids would read past the matrix).
std::uint32_t read_vocab_size(const gguf::File& file, const MetadataReader& metadata,
                              std::uint32_t hidden_size) {
  constexpr std::string_view kEmbedding = "token_embd.weight";
  const gguf::TensorInfo* embedding = file.find_tensor(kEmbedding);
  if (embedding == nullptr) {
    metadata.fail(
        fmt::format("tensor {} is missing; a {} model cannot do without it", kEmbedding, kArchitecture));
  }
  if (embedding->shape.empty() || embedding->shape[0] != hidden_size) {
    metadata.fail(fmt::format("tensor {} has rows of {} elements but metadata {} is {}", kEmbedding,
                              embedding->shape.empty() ? 0 : embedding->shape[0],
                              metadata.full_key("embedding_length"), hidden_size));
  }
  const std::uint64_t rows = embedding->shape.size() < 2 ? 1 : embedding->shape[1];
  if (rows > kMaxVocabulary) {
    metadata.fail(
        fmt::format("tensor {} has {} rows; expected at most {}", kEmbedding, rows, kMaxVocabulary));
  }
  const auto stated = metadata.optional_number("vocab_size");
  if (stated && *stated != static_cast<double>(rows)) {
    metadata.fail(fmt::format("metadata {} is {} but tensor {} has {} rows", metadata.full_key("vocab_size"),
                              *stated, kEmbedding, rows));
  }
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  const gguf::Value* tokens = file.find(kTokens);
  const auto* list = tokens == nullptr ? nullptr : tokens->as_array();
  if (list != nullptr && list->size() > rows) {
    metadata.fail(fmt::format("metadata {} lists {} tokens but tensor {} has only {} rows", kTokens,
                              list->size(), kEmbedding, rows));
  }
  return static_cast<std::uint32_t>(rows);
}

/// What is left over changes nothing that inferno knows of; the user may know better.
void report_unread_keys(const gguf::File& file, const MetadataReader& metadata) {
  constexpr std::size_t kShown = 10;
  std::string list;
  std::size_t count = 0;
  for (const auto& key : metadata.unread_keys()) {
    // YaRN's settings beside another scaling type say nothing.
    if (key.compare(0, metadata.full_key("rope.").size(), metadata.full_key("rope.")) == 0) continue;
    ++count;
    if (count <= kShown) list += fmt::format("{}{}", count == 1 ? "" : ", ", quote(key));
  }
  if (count == 0) return;
  log().warn("{}: {} unknown metadata {} not used: {}{}", file_name_for_messages(file), count,
             count == 1 ? "key is" : "keys are", list, count > kShown ? ", ..." : "");
}

float read_epsilon(const MetadataReader& metadata) {
  constexpr std::string_view kKey = "attention.layer_norm_rms_epsilon";
  const auto number = metadata.optional_number(kKey);
  if (!number)
    metadata.fail(fmt::format("metadata {} is missing; expected a number", metadata.full_key(kKey)));
  if (!(*number >= 0.0 && *number < 1.0)) {
    metadata.fail(fmt::format("metadata {} is {}; expected a number from 0 to below 1",
                              metadata.full_key(kKey), *number));
  }
  return static_cast<float>(*number);
}

}  // namespace

ModelConfig read_config(const gguf::File& file) {
  const MetadataReader metadata(file, std::string(kArchitecture) + '.');
  check_architecture(file, metadata);

  ModelConfig config;
  const gguf::Value* name = file.find("general.name");
  const auto* name_text = name == nullptr ? nullptr : name->as_string();
  config.name =
      printable(name_text != nullptr && !name_text->empty() ? *name_text : file.path().stem().string());

  config.layers = metadata.count("block_count", kMaxLayers);
  config.hidden_size = metadata.count("embedding_length", kMaxWidth);
  config.ffn_size = metadata.count("feed_forward_length", kMaxWidth);
  config.heads = metadata.count("attention.head_count", kMaxHeads);
  config.kv_heads = metadata.optional_count("attention.head_count_kv", kMaxHeads).value_or(config.heads);
  config.context_length = metadata.count("context_length", kMaxContext);
  if (config.heads % config.kv_heads != 0) {
    metadata.fail(fmt::format("metadata {} is {}, which is not a multiple of {} {}",
                              metadata.full_key("attention.head_count"), config.heads,
                              metadata.full_key("attention.head_count_kv"), config.kv_heads));
  }
  config.head_dim = read_head_dim(metadata, config);
  if (std::uint64_t{config.heads} * config.head_dim > kMaxWidth) {
    metadata.fail(fmt::format("{} heads of {} elements make a query of {}; expected at most {}", config.heads,
                              config.head_dim, std::uint64_t{config.heads} * config.head_dim, kMaxWidth));
  }
  refuse_foreign_settings(metadata, config.context_length);
  config.rms_epsilon = read_epsilon(metadata);
  config.rope_base = read_rope_base(metadata);
  config.rope_scaling = read_rope_scaling(metadata, config.context_length);
  config.vocab_size = read_vocab_size(file, metadata, config.hidden_size);
  report_unread_keys(file, metadata);
  config.tied_head = file.find_tensor("output.weight") == nullptr;
  return config;
}

}  // namespace inferno
