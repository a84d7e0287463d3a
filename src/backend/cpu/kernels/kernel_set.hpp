#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/cpu/kernels/packed_matrix.hpp"

namespace inferno::cpu {

/// Activations of several tokens, quantized in blocks of 32 (arith/quantize.hpp).
struct QuantizedBatch {
  std::int8_t* values = nullptr;  ///< [tokens][columns]
  float* scales = nullptr;        ///< [tokens][columns / 32]
  std::int32_t* offsets =
      nullptr;  ///< [tokens][columns / 32]: -128 * (sum of the block's values): weights are stored + 128
  std::uint32_t columns = 0;  ///< a multiple of 32

  std::uint32_t blocks() const { return columns / kBlockColumns; }
};

/// Keys of one KV head in one cache block, as kernels like them. P16 = positions rounded up to 16, B = E32 /
/// 32 blocks.
///   keys        [P16 / 16][E32 / 4][16 positions][4 dimensions]  uint8, the integer + 128
///   key_scales  [P16 / 16][B][16 positions]
///   values      [P16 / 4][E32][4 positions]                       int8
///   value_scales [B][P16]
/// Positions that were never written hold zeros.
struct CacheView {
  std::uint8_t* keys = nullptr;
  float* key_scales = nullptr;
  std::int8_t* values = nullptr;
  float* value_scales = nullptr;
  std::uint32_t positions = 0;  ///< P16: stride of value_scales
};

/// Queries of the G heads that share a KV head, for one token.
struct QueryGroup {
  const std::int8_t* values = nullptr;    ///< [G][E32]
  const float* scales = nullptr;          ///< [G][B], times 1 / sqrt(E)
  const std::int32_t* offsets = nullptr;  ///< [G][B]: -128 * (sum of the block's values)
  std::uint32_t heads = 0;                ///< G
  std::uint32_t blocks = 0;               ///< B
};

/// Attention weights of one split as integers of 15 bits, apart as q = high * 128 + low, for G heads.
struct SplitWeights {
  std::uint8_t* high = nullptr;  ///< [G][B][256]
  std::uint8_t* low = nullptr;   ///< [G][B][256]
  float* scales = nullptr;       ///< [G][B]: what a sum of products is worth
};

/// The kernels of one instruction set. Each equals the contract (src/arith) bit for bit; none allocates, none
/// starts threads. T: tokens, D: width, E: head size, E32: rounded up to 32.
struct KernelSet {
  std::string_view name;   ///< "avx512-vnni", "avx2", "neon-dot", "neon", "plain"
  std::string_view needs;  ///< what the processor must have, for messages
  bool (*supported)();

  /// xw = x * weight (element by element), quantized to token `token` of `target`; returns inverse_rms(x).
  float (*norm_quantize)(const float* x, const float* weight, std::uint32_t width, float inverse_length,
                         float epsilon, const QuantizedBatch& target, std::uint32_t token);
  /// The same with xw left as floats, for float weights and for outputs of hidden states.
  float (*norm_float)(const float* x, const float* weight, std::uint32_t width, float inverse_length,
                      float epsilon, float* xw);
  void (*quantize)(const float* x, const QuantizedBatch& target, std::uint32_t token);
  /// gate[i] = swiglu(gate[i], up[i]).
  void (*swiglu)(float* gate, const float* up, std::size_t count);
  /// y += x.
  void (*add)(float* y, const float* x, std::size_t count);

  /// y[t][row] = quantized_dot(row, x[t]) * factor[t] for the rows of panels [first, end) and `tokens`
  /// tokens; without factors (nullptr) the sum itself. `y_stride` floats from token to token; row 0 of the
  /// matrix is y[t][0]. Rows beyond the matrix are not written.
  void (*matmul)(const PackedMatrix& matrix, std::uint32_t first, std::uint32_t end, const QuantizedBatch& x,
                 std::uint32_t tokens, const float* factors, float* y, std::size_t y_stride);
  /// The same for float weights (F32, F16, BF16; float_dot), rows [first, end); `x` [tokens][columns].
  void (*matmul_float)(const Matrix& matrix, std::uint32_t first, std::uint32_t end, const float* x,
                       std::uint32_t tokens, const float* factors, float* y, std::size_t y_stride);

  /// In place: head = rotate(head * inverse_rms(head) * weight), E floats; sine and cosine [E / 2].
  void (*norm_rotate)(float* head, const float* weight, std::uint32_t head_dim, float inverse_length,
                      float epsilon, const float* sine, const float* cosine);
  /// Quantizes one head's query to values [E32], scales [B] (times `softmax_scale`), offsets [B].
  void (*quantize_query)(const float* head, std::uint32_t head_dim, float softmax_scale, std::int8_t* values,
                         float* scales, std::int32_t* offsets);
  /// Quantizes one position's key and value into a cache block at position `offset`.
  void (*append_kv)(const float* key, const float* value, std::uint32_t head_dim, const CacheView& cache,
                    std::uint32_t offset);

  /// scores[g][i] of positions [0, count) of one cache block; `stride` floats from head to head. May write up
  /// to the next multiple of 16 positions.
  void (*scores)(const QueryGroup& query, const CacheView& cache, std::uint32_t count, float* scores,
                 std::size_t stride);
  /// The scores of one split and head, [count] (room for 256), become weights: returns the maximum through
  /// `maximum` and the strided sum of exp(score - maximum) through `denominator`; scores[i] becomes exp(score
  /// - maximum).
  void (*softmax)(float* scores, std::uint32_t count, float* maximum, float* denominator);
  /// weights[b][i] for one head: p[i] * value_scale[b][i], rounded to 15 bits; `value_scales` [B][256] of the
  /// split's positions. high and low [B][256] are zero from `count` on to the next multiple of 16.
  void (*quantize_weights)(const float* p, const float* value_scales, std::uint32_t count,
                           std::uint32_t blocks, std::uint8_t* high, std::uint8_t* low, float* scales);
  /// sums[g][d] += weight * value over positions [0, count) of one cache block, whose first position is
  /// number `first` of its split; int32 [G][E32]. Positions from `count` on are read up to a multiple of 4:
  /// their weights are zero, or (in blocks of fewer than 4 positions) their values are.
  void (*weigh_values)(const SplitWeights& weights, std::uint32_t heads, std::uint32_t blocks,
                       const CacheView& cache, std::uint32_t first, std::uint32_t count, std::int32_t* sums);
};

/// Every kernel set that this build has, best first; `plain` is the last and works everywhere.
std::span<const KernelSet* const> kernel_sets();
/// The best one that this processor supports, or the one that INFERNO_KERNELS names. Throws UsageError for a
/// name that is unknown, Error for one that this processor cannot run.
const KernelSet& best_kernel_set();

}  // namespace inferno::cpu
