#include "model/config.hpp"

#include <fmt/format.h>
#include <string_view>

#include <inferno/error.hpp>

#include "gguf/refusal.hpp"
#include "model/foreign_settings.hpp"
#include "model/metadata_reader.hpp"
#include "model/rope_metadata.hpp"
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

void check_architecture(const gguf::File& file) {
  constexpr std::string_view kKey = "general.architecture";
  const gguf::Value* value = file.find(kKey);
  const auto* name = value == nullptr ? nullptr : value->as_string();
  if (name == nullptr || *name != kArchitecture) {
    gguf::refuse_value(file, kKey, fmt::format("\"{}\" (inferno supports no other)", kArchitecture));
  }
}

std::uint32_t read_head_dim(const MetadataReader& metadata, const ModelConfig& config) {
  constexpr std::string_view kKeyLength = "attention.key_length";
  constexpr std::string_view kValueLength = "attention.value_length";
  constexpr std::string_view kRotated = "rope.dimension_count";
  const auto key_length = metadata.optional_layer_count(kKeyLength, kMaxWidth, config.layers);
  const auto value_length = metadata.optional_layer_count(kValueLength, kMaxWidth, config.layers);
  if (!key_length && config.hidden_size % config.heads != 0) {
    metadata.refuse(kKeyLength, fmt::format("a whole number, since {} is not a multiple of {}",
                                            metadata.with_value("embedding_length"),
                                            metadata.with_value("attention.head_count")));
  }
  const std::uint32_t head_dim = key_length ? *key_length : config.hidden_size / config.heads;
  // What stands in for a key that the file lacks, so that nobody looks for it there.
  const std::string derived =
      fmt::format("no such key, for which {} / {} = {} is taken; add it",
                  metadata.full_key("embedding_length"), metadata.full_key("attention.head_count"), head_dim);
  if (value_length && *value_length != head_dim) {
    const auto expected = fmt::format("{}, as {} says", *value_length, metadata.with_value(kValueLength));
    if (key_length) metadata.refuse(kKeyLength, expected);
    metadata.refuse(kKeyLength, expected, derived);
  }
  if (head_dim % 2 != 0) {
    constexpr std::string_view kExpected = "an even number (rotary embedding needs it)";
    if (key_length) metadata.refuse(kKeyLength, kExpected);
    metadata.refuse(kKeyLength, kExpected, derived);
  }
  const auto rotated = metadata.optional_layer_count(kRotated, kMaxWidth, config.layers);
  if (rotated && *rotated != head_dim) {
    metadata.refuse(kRotated,
                    fmt::format("{}, the head dimension (inferno rotates whole heads only)", head_dim));
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
    throw Error(fmt::format("{}: tensor {}: expected it in a {} model, found no such tensor; it is missing",
                            gguf::name_for_messages(file.path()), quote(kEmbedding), kArchitecture));
  }
  if (embedding->shape.empty() || embedding->shape[0] != hidden_size) {
    gguf::refuse_tensor(
        file, *embedding, "shape",
        fmt::format("rows of {} elements, as {} says,", hidden_size, metadata.with_value("embedding_length")),
        fmt::format("rows of {}", embedding->shape.empty() ? 0 : embedding->shape[0]));
  }
  const std::uint64_t rows = embedding->shape.size() < 2 ? 1 : embedding->shape[1];
  if (rows > kMaxVocabulary) {
    gguf::refuse_tensor(file, *embedding, "shape", fmt::format("at most {} rows", kMaxVocabulary),
                        fmt::format("{}", rows));
  }
  const std::string rows_of_embedding = fmt::format("the rows of tensor {}", quote(kEmbedding));
  const auto stated = metadata.optional_number("vocab_size");
  if (stated && *stated != static_cast<double>(rows)) {
    metadata.refuse("vocab_size", fmt::format("{} ({})", rows, rows_of_embedding));
  }
  constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
  const gguf::Value* tokens = file.find(kTokens);
  const auto* list = tokens == nullptr ? nullptr : tokens->as_array();
  if (list != nullptr && list->size() > rows) {
    gguf::refuse_value(file, kTokens, fmt::format("at most {} tokens ({})", rows, rows_of_embedding),
                       fmt::format("{}", list->size()));
  }
  return static_cast<std::uint32_t>(rows);
}

float read_epsilon(const MetadataReader& metadata) {
  constexpr std::string_view kKey = "attention.layer_norm_rms_epsilon";
  const auto number = metadata.optional_number(kKey);
  constexpr std::string_view kExpected = "a number above 0 and below 1";
  if (!number || !(static_cast<float>(*number) > 0.0F && *number < 1.0)) metadata.refuse(kKey, kExpected);
  return static_cast<float>(*number);
}

}  // namespace

ModelConfig read_config(const gguf::File& file) {
  const MetadataReader metadata(file, std::string(kArchitecture) + '.');
  check_architecture(file);

  ModelConfig config;
  const gguf::Value* name = file.find("general.name");
  const auto* name_text = name == nullptr ? nullptr : name->as_string();
  config.name =
      printable(name_text != nullptr && !name_text->empty() ? *name_text : file.path().stem().string());

  config.layers = metadata.count("block_count", kMaxLayers);
  config.hidden_size = metadata.count("embedding_length", kMaxWidth);
  constexpr std::string_view kHeads = "attention.head_count";
  constexpr std::string_view kKvHeads = "attention.head_count_kv";
  config.ffn_size = metadata.layer_count("feed_forward_length", kMaxWidth, config.layers);
  config.heads = metadata.layer_count(kHeads, kMaxHeads, config.layers);
  config.kv_heads = metadata.optional_layer_count(kKvHeads, kMaxHeads, config.layers).value_or(config.heads);
  config.context_length = metadata.count("context_length", kMaxContext);
  if (config.heads % config.kv_heads != 0) {
    metadata.refuse(kHeads, fmt::format("a multiple of {}", metadata.with_value(kKvHeads)),
                    fmt::format("{}", config.heads));
  }
  config.head_dim = read_head_dim(metadata, config);
  if (std::uint64_t{config.heads} * config.head_dim > kMaxWidth) {
    metadata.refuse(kHeads, fmt::format("a query of at most {} elements", kMaxWidth),
                    fmt::format("{} heads of {} elements", config.heads, config.head_dim));
  }
  refuse_foreign_settings(metadata, config.context_length);
  config.rms_epsilon = read_epsilon(metadata);
  config.rope_base = read_rope_base(metadata);
  config.rope_scaling = read_rope_scaling(metadata, config.context_length);
  config.vocab_size = read_vocab_size(file, metadata, config.hidden_size);
  report_unread_keys(metadata);
  config.tied_head = file.find_tensor("output.weight") == nullptr;
  return config;
}

}  // namespace inferno
