#pragma once

#include <filesystem>

#include "gguf/reader.hpp"
#include "model/config.hpp"
#include "model/weights.hpp"

namespace inferno {

/// A model file with its configuration and weights bound: what executors are made from. Weights are views
/// into the file; the object is immovable so that the views stay true.
struct LoadedModel {
  gguf::File file;
  ModelConfig config;
  ModelWeights weights;

  /// Opens, checks and binds. Throws Error naming file and fault.
  explicit LoadedModel(const std::filesystem::path& path, const gguf::OpenOptions& options = {});
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;
};

}  // namespace inferno
