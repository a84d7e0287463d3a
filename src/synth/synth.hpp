#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "gguf/writer.hpp"
#include "quant/format.hpp"

namespace inferno {

/// A model of random weights in a true shape: as fast and as large as the real one, without its download.
struct SynthOptions {
  std::string preset = "0.6b";                       ///< a name of `presets()` (preset.hpp), any case
  quant::TensorType type = quant::TensorType::q8_0;  ///< of every matrix; norms are always F32
  std::uint64_t seed = 0;                            ///< same seed, same bytes, on every platform
  /// A Hugging Face tokenizer.json; a tokenizer_config.json beside it supplies the chat template and the
  /// special tokens. Empty: bytes, a few merges and Qwen's control tokens.
  std::filesystem::path tokenizer_json;
  /// Whether the token list is filled up to the embedding's rows with unused entries, as llama.cpp's
  /// converter does and llama.cpp expects. Without, it ends with the tokenizer's last token.
  bool pad_vocabulary = true;
  std::uint32_t threads = 0;  ///< that make the numbers; 0: as many as may run. No influence on the bytes.
};

/// Writes the model. The file appears under its name only once it is whole. Needs a few megabytes of memory,
/// whatever the size. Throws UsageError for an unknown preset, Error if the tokenizer cannot be read or the
/// disk has no room (asked before anything is written).
///
/// With the same seed F32, F16 and Q8_0 hold the same weights exactly; the other types hold these rounded.
void synthesize(const SynthOptions& options, const std::filesystem::path& path,
                const gguf::Writer::Progress& progress = {});

}  // namespace inferno
