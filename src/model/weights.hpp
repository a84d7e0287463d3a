#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gguf/reader.hpp"
#include "model/config.hpp"
#include "model/matrix.hpp"

namespace inferno {

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

/// Finds every tensor of the architecture and checks its type, and its shape against `config`. Throws Error
/// naming the tensor, what was expected of it, where it stands and what it is; every missing tensor is named
/// (the first ten).
ModelWeights bind_weights(const gguf::File& file, const ModelConfig& config);

}  // namespace inferno
