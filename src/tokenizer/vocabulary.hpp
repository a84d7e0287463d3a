#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gguf/reader.hpp"
#include "gguf/writer.hpp"

namespace inferno {

/// What a token is, numbered as `tokenizer.ggml.token_type` stores it.
enum class TokenType : std::int32_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

/// A byte-level BPE vocabulary as data: what a GGUF file or a Hugging Face tokenizer.json says.
struct Vocabulary {
  std::vector<std::string> tokens;  ///< by id, in the byte-to-character alphabet (added tokens: plain text)
  std::vector<TokenType> types;     ///< by id, same length
  std::vector<std::pair<std::string, std::string>> merges;  ///< by rank, both halves in the alphabet
  std::optional<std::int32_t> bos, eos, eot, pad;
  bool add_bos = false;
  std::string chat_template;  ///< Jinja text, empty if there is none
};

/// From `tokenizer.ggml.*`. Throws Error naming the file, the key, what was expected, where the value stands
/// and what was found.
Vocabulary vocabulary_from_gguf(const gguf::File& file);
/// From the text of a tokenizer.json (byte-level BPE with Qwen's pre-tokenizer); `config` is the text of
/// the tokenizer_config.json beside it, or empty. Throws Error naming the JSON field.
Vocabulary vocabulary_from_json(const std::string& tokenizer_json, const std::string& config);
/// Adds `tokenizer.ggml.*` (and `tokenizer.chat_template`) to a file to be written.
void add_to_gguf(const Vocabulary& vocabulary, gguf::Writer& writer);

}  // namespace inferno
