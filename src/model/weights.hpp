#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gguf/reader.hpp"
#include "model/config.hpp"
#include "quant/format.hpp"

namespace inferno {

/// A matrix of a file, row-major, each row a whole number of blocks. A view: the file owns the bytes.
/// y[rows] = W[rows, columns] x[columns].
struct Matrix {
  const quant::Format* format = nullptr;
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  const std::byte* bytes = nullptr;  ///< rows * row_bytes()
  std::string_view name;             ///< the tensor's name, for messages; lives in the file

  std::size_t row_bytes() const {
    return std::size_t{columns} / format->block_elements * format->block_bytes;
  }
  std::size_t total_bytes() const { return row_bytes() * rows; }
  const std::byte* row(std::uint32_t index) const { return bytes + row_bytes() * index; }
};

/// One layer's weights. Norm weights are decoded to float: they are short and read by every backend.
struct LayerWeights {
  std::vector<float> attention_norm;  ///< [D]
  Matrix query;                       ///< [H*E, D]
  Matrix key;                         ///< [K*E, D]
  Matrix value;                       ///< [K*E, D]
  std::vector<float> query_norm;      ///< [E], shared by all heads
  std::vector<float> key_norm;        ///< [E]
  Matrix attention_output;            ///< [D, H*E]
  std::vector<float> ffn_norm;        ///< [D]
  Matrix gate;                        ///< [F, D]
  Matrix up;                          ///< [F, D]
  Matrix down;                        ///< [D, F]
};

/// A model's weights as views into the mapped file.
struct ModelWeights {
  Matrix embedding;  ///< [V, D]
  std::vector<LayerWeights> layers;
  std::vector<float> final_norm;  ///< [D]
  Matrix lm_head;                 ///< [V, D]; the embedding itself when tied
};

/// Finds every tensor of the architecture and checks its shape against `config`. Throws Error naming
/// the tensor, its expected and its actual shape; every missing tensor is named (the first ten).
ModelWeights bind_weights(const gguf::File& file, const ModelConfig& config);

}  // namespace inferno
