#pragma once

#include <filesystem>

#include "gguf/reader.hpp"
#include "model/loaded_model.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// What a Model is made of.
struct ModelParts {
  LoadedModel loaded;
  Tokenizer tokenizer;

  ModelParts(const std::filesystem::path& path, const gguf::OpenOptions& options)
      : loaded(path, options), tokenizer(Tokenizer::from_gguf(loaded.file)) {}
};

}  // namespace inferno
