#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gguf/reader.hpp"

namespace inferno::test {

/// An independent Qwen3 forward pass to compare with: double precision, one whole sequence at a time, full
/// score rows, no cache, and nothing of src/model or src/backend: it reads metadata and tensors by itself.
/// Rotary scaling follows YaRN's paper and Hugging Face's `modeling_rope_utils`.
class ReferenceForward {
 public:
  explicit ReferenceForward(const gguf::File& file);

  /// Logits of every position of `ids`, [ids][V].
  std::vector<std::vector<double>> logits(std::span<const std::int32_t> ids) const;

 private:
  using Vector = std::vector<double>;
  /// A tensor in the file, decoded row by row as it is used.
  struct Weights {
    const quant::Format* format = nullptr;
    const std::byte* bytes = nullptr;
    std::size_t rows = 0, columns = 0;
    Vector row(std::size_t index) const;
    /// W x.
    Vector times(const Vector& x) const;
  };
  struct Layer {
    Vector attention_norm, query_norm, key_norm, ffn_norm;
    Weights query, key, value, output, gate, up, down;
  };

  double number(const std::string& key, double otherwise) const;
  Weights tensor(const std::string& name) const;
  Vector norm(const Vector& x, const Vector& weight) const;
  void rotate(Vector& heads, std::size_t position) const;

  const gguf::File& file_;
  std::size_t heads_, kv_heads_, head_dim_;
  double epsilon_;
  std::vector<long double> frequencies_;
  long double rotary_gain_ = 1.0L;
  Weights embedding_, head_;
  Vector final_norm_;
  std::vector<Layer> layers_;
};

/// Radians per position of each pair of a head's elements, and the factor of sine and cosine, from a
/// model's rotary metadata.
struct ReferenceRope {
  std::vector<long double> frequencies;
  long double gain = 1.0L;
};
struct ReferenceRopeSettings {
  std::size_t head_dim = 128;
  long double base = 1e6L;
  std::string type = "none";
  long double factor = 1.0L;
  long double original_context = 0.0L;
  long double beta_fast = 32.0L, beta_slow = 1.0L;
};
ReferenceRope reference_rope(const ReferenceRopeSettings& settings);

}  // namespace inferno::test
