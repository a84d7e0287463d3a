#pragma once

#include <cstdint>

#include "backend/cpu/scalar/buffer.hpp"
#include "model/config.hpp"
#include "step/executor.hpp"

namespace inferno::scalar {

/// Head rows whose logits are computed together: the head's weights are decoded once for all of them, and
/// the logits of a long prompt's positions are never held at once.
inline constexpr std::uint32_t kHeadPiece = 16;

/// Everything a step needs beside weights and cache, sized for the largest step that was reserved.
/// T tokens, N head rows.
struct Scratch {
  Scratch() = default;
  /// Throws Error if there is not enough memory.
  Scratch(const ModelConfig& config, const Limits& limits);

  /// Bytes of all buffers together.
  static std::uint64_t bytes(const ModelConfig& config, const Limits& limits);

  Buffer hidden;      ///< [T, D] the residual stream
  Buffer normed;      ///< [T, D]
  Buffer query;       ///< [T, H*E]
  Buffer key;         ///< [T, K*E]
  Buffer value;       ///< [T, K*E]
  Buffer mixed;       ///< [T, H*E] what attention gives
  Buffer projected;   ///< [T, D] what attention and FFN add to the residual stream
  Buffer gate;        ///< [T, F]
  Buffer up;          ///< [T, F]
  Buffer sine;        ///< [T, E/2]
  Buffer cosine;      ///< [T, E/2]
  Buffer partials;    ///< [2, E] partial softmax sums of one head
  Buffer weight_row;  ///< [largest number of columns] one decoded row of a matrix
  Buffer final;       ///< [N, D] the hidden state after the final norm
  Buffer head_input;  ///< [kHeadPiece, D] the rows of `final` that want logits, packed
  Buffer logits;      ///< [kHeadPiece, V]
};

}  // namespace inferno::scalar
