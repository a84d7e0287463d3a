#pragma once

#include <cstdint>

#include "backend/cpu/contract/aligned_buffer.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "model/config.hpp"
#include "step/executor.hpp"

namespace inferno::cpu {

/// What a step of at most T tokens works on. Sized once, when limits are reserved.
struct Scratch {
  /// Head rows whose logits are held at a time.
  static constexpr std::uint32_t kHeadPiece = 16;

  AlignedBuffer<float> hidden;                ///< [T][D] the residual stream
  AlignedBuffer<float> qkv;                   ///< [T][H*E + 2*K*E] query, key, value side by side
  AlignedBuffer<float> mixed;                 ///< [T][H*E] what attention gives
  AlignedBuffer<float> gate;                  ///< [T][F]
  AlignedBuffer<float> up;                    ///< [T][F]
  AlignedBuffer<float> branch;                ///< [T][D] before it is added to hidden
  AlignedBuffer<float> factors;               ///< [T] 1 / rms
  AlignedBuffer<float> weighted;              ///< [T][widest] matrix inputs as floats, for float weights
  AlignedBuffer<std::int8_t> input_values;    ///< [T + spare][widest] matrix inputs, quantized
  AlignedBuffer<float> input_scales;          ///< [T + spare][widest / 32]
  AlignedBuffer<std::int32_t> input_offsets;  ///< [T + spare][widest / 32]
  AlignedBuffer<float> sine, cosine;          ///< [T][E / 2]
  AlignedBuffer<std::int8_t> query_values;    ///< [T][H][E32]
  AlignedBuffer<float> query_scales;          ///< [T][H][B]
  AlignedBuffer<std::int32_t> query_offsets;  ///< [T][H][B]
  AlignedBuffer<float> head_states;           ///< [O][D] hidden states of head rows
  AlignedBuffer<float> logits;                ///< [kHeadPiece][V]

  Scratch() = default;
  Scratch(const ModelConfig& config, const Limits& limits);
  /// Bytes that the constructor takes.
  static std::uint64_t bytes(const ModelConfig& config, const Limits& limits);

  /// Matrix inputs of the given width (rounded up to 32).
  QuantizedBatch input(std::uint32_t width) const;
};

}  // namespace inferno::cpu
