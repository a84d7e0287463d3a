#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/cpu/kernels/cache_layout.hpp"
#include "backend/cpu/kernels/packed_matrix.hpp"

namespace inferno::cpu {

/// Activations of several tokens, quantized in blocks of 32 (arith/quantize.hpp). How they are ordered is the
/// kernel set's own business: the set that quantizes is the set that multiplies. Tokens stand in tiles that
/// are allocated whole, so there is room for kSpareTokens more than are used:
///   values [tokens + kSpareTokens][columns], scales and offsets [tokens + kSpareTokens][columns / 32].
struct QuantizedBatch {
  static constexpr std::uint32_t kSpareTokens = 15;

  std::int8_t* values = nullptr;
  float* scales = nullptr;
  std::int32_t* offsets = nullptr;  ///< what the integer sum of a block starts from
  std::uint32_t columns = 0;        ///< a multiple of 32

  INFERNO_INLINE std::uint32_t blocks() const { return columns / kBlockColumns; }
};

/// Queries that look at the same positions of one KV head: the G heads of one token, or those of several
/// tokens one after the other. Written by KernelSet::quantize_query of the same set.
struct QueryGroup {
  const std::int8_t* values = nullptr;    ///< [heads][E32]
  const float* scales = nullptr;          ///< [heads][B], times 1 / sqrt(E)
  const std::int32_t* offsets = nullptr;  ///< [heads][B]: what the integer sum of a block starts from
  std::uint32_t heads = 0;                ///< G, or tokens * G
  std::uint32_t blocks = 0;               ///< B
};

/// Attention weights of one split as integers of 15 bits, two bytes each; their order is the set's own.
struct SplitWeights {
  /// Bytes for the 256 positions of one head and block of 32 dimensions.
  static constexpr std::size_t kBytes = 512;

  std::byte* integers = nullptr;  ///< [heads][B][kBytes]
  float* scales = nullptr;        ///< [heads][B]: what a sum of products is worth
};

/// The kernels of one instruction set. Each equals the contract (src/arith) bit for bit; none allocates, none
/// starts threads, none throws. T: tokens, D: width, E: head size, E32: rounded up to 32, B: E32 / 32. No
/// pointer needs any alignment but its type's; matrices and caches are fastest at 64 bytes.
struct KernelSet {
  std::string_view name;   ///< "avx512-vnni", "avx2", "neon-dot", "neon", "plain"
  std::string_view needs;  ///< what the processor must have, for messages
  bool (*supported)();

  /// xw = x * weight (element by element), quantized to token `token` of `target`; returns inverse_rms(x).
  /// Columns of the target from `width` on are zero.
  float (*norm_quantize)(const float* x, const float* weight, std::uint32_t width, float inverse_length,
                         float epsilon, const QuantizedBatch& target, std::uint32_t token);
  /// The same with xw left as floats, for float weights and for outputs of hidden states.
  float (*norm_float)(const float* x, const float* weight, std::uint32_t width, float inverse_length,
                      float epsilon, float* xw);
  /// x [columns] to token `token` of `target`.
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

  /// In place: head = rotate((head * inverse_rms(head)) * weight), E floats; sine and cosine [E / 2].
  void (*norm_rotate)(float* head, const float* weight, std::uint32_t head_dim, float inverse_length,
                      float epsilon, const float* sine, const float* cosine);
  /// Quantizes one head's query to values [E32], scales [B] (times `softmax_scale`), offsets [B].
  void (*quantize_query)(const float* head, std::uint32_t head_dim, float softmax_scale, std::int8_t* values,
                         float* scales, std::int32_t* offsets);
  /// Quantizes one position's key and value into a cache block at position `offset`.
  void (*append_kv)(const float* key, const float* value, std::uint32_t head_dim, const CacheView& cache,
                    std::uint32_t offset);

  /// scores[head][i] of positions [0, count) of one cache block; `stride` floats from head to head. May write
  /// up to the next multiple of 16 positions.
  void (*scores)(const QueryGroup& query, const CacheView& cache, std::uint32_t count, float* scores,
                 std::size_t stride);
  /// The scores of one split and head, [count] with room up to the next multiple of 16, become weights:
  /// scores[i] = exp(score - maximum), zero behind the last. `denominator`: their strided sum. count >= 1.
  void (*softmax)(float* scores, std::uint32_t count, float* maximum, float* denominator);
  /// Weights of one head: p[i] * value_scale[b][i] rounded to 15 bits, to integers [B][kBytes] and scales
  /// [B]; positions from `count` on weigh zero. `value_scales` [B][256] of the split's positions.
  void (*quantize_weights)(const float* p, const float* value_scales, std::uint32_t count,
                           std::uint32_t blocks, std::byte* integers, float* scales);
  /// sums[head][d] += weight * value over positions [0, count) of one cache block, whose first position is
  /// number `first` of its split; int32 [heads][E32]. From `count` on, up to a multiple of 4, values are read
  /// and count for nothing; weights may be read as far if `first` is a multiple of 4, and are zero then.
  void (*weigh_values)(const SplitWeights& weights, std::uint32_t heads, std::uint32_t blocks,
                       const CacheView& cache, std::uint32_t first, std::uint32_t count, std::int32_t* sums);
  /// output[d] = float(sums[d]) * scales[d / 32], [E32]: what one head has of one split.
  void (*scale_sums)(const std::int32_t* sums, const float* scales, std::uint32_t blocks, float* output);
  /// merge_splits for one head: split s has left {maximum, denominator, output [head_dim]} at partials + s *
  /// `stride`; `output` [head_dim] is written.
  void (*merge_splits)(const float* partials, std::size_t stride, std::uint32_t splits,
                       std::uint32_t head_dim, float* output);
};

/// Every kernel set that this build has, best first; `plain` is the last and works everywhere.
std::span<const KernelSet* const> kernel_sets();
/// The best one that this processor supports, or the one that INFERNO_KERNELS names. Throws UsageError for a
/// name that is unknown, Error for one that this processor cannot run.
const KernelSet& best_kernel_set();

}  // namespace inferno::cpu
