#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gguf/value.hpp"
#include "gguf/writer.hpp"
#include "model/config.hpp"
#include "quant/format.hpp"

namespace inferno::test {

/// A small Qwen3 file with random weights, and the ways to spoil it. Weights are drawn per tensor from the
/// seed and the tensor's name: two files that differ in one thing are equal in all others.
struct RandomModel {
  // The shape.
  std::uint32_t layers = 2, hidden_size = 64, ffn_size = 96, heads = 4, kv_heads = 2, head_dim = 32;
  std::uint32_t vocab_size = 100, context_length = 4096;
  float rms_epsilon = 1e-6F, rope_base = 1e6F;
  bool tied_head = true;
  std::uint64_t seed = 1;

  // The formats. `formats` overrides by tensor name.
  quant::TensorType matrix_format = quant::TensorType::f32;
  quant::TensorType embedding_format = quant::TensorType::f32;
  quant::TensorType head_format = quant::TensorType::f32;
  quant::TensorType norm_format = quant::TensorType::f32;
  std::map<std::string, quant::TensorType> formats;

  /// A separate head with the embedding's values instead of its own.
  bool head_copies_embedding = false;
  /// Metadata added, or put in place of what the shape gives.
  gguf::Metadata metadata;
  std::set<std::string> without_keys;
  std::set<std::string> without_tensors;
  std::map<std::string, std::vector<std::uint64_t>> shapes;  ///< in place of the right ones
  std::vector<std::pair<std::string, std::vector<std::uint64_t>>> extra_tensors;  ///< F32
  /// Changes a tensor's values before they are encoded.
  std::function<void(const std::string& name, std::vector<float>& values)> change;

  /// Writes the file.
  void write(const std::filesystem::path& path) const;
};

/// A file in the tests' temporary folder that disappears with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& suffix = ".gguf");
  /// Writes the model into it.
  explicit TemporaryFile(const RandomModel& model);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Token ids below `vocab_size`, a function of the seed.
std::vector<std::int32_t> random_ids(std::size_t count, std::uint32_t vocab_size, std::uint64_t seed);

}  // namespace inferno::test
