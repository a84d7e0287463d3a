#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/contract/aligned_buffer.hpp"
#include "backend/cpu/contract/kv_store.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "model/config.hpp"
#include "step/plan.hpp"

namespace inferno::cpu {

/// What attention needs to know of the model's shape.
struct AttentionShape {
  std::uint32_t group = 0;       ///< G query heads share a KV head
  std::uint32_t kv_heads = 0;    ///< K
  std::uint32_t head_dim = 0;    ///< E
  std::uint32_t padded_dim = 0;  ///< E32
  std::uint32_t blocks = 0;      ///< B = E32 / 32

  AttentionShape() = default;
  explicit AttentionShape(const ModelConfig& config)
      : group(config.heads / config.kv_heads),
        kv_heads(config.kv_heads),
        head_dim(config.head_dim),
        padded_dim((config.head_dim + 31) / 32 * 32),
        blocks(padded_dim / 32) {}

  /// Floats that one query head leaves per split: maximum, denominator, output [E32].
  std::size_t partial_floats() const { return 2 + std::size_t{padded_dim}; }
};

/// Splits of the first `positions` positions.
constexpr std::uint32_t splits_of(std::uint32_t positions) {
  return (positions + kSplitPositions - 1) / kSplitPositions;
}

/// Consecutive tokens of one row that look at one KV head together: keys and values are fetched once for all
/// of them.
struct TokenTile {
  QueryGroup query;                      ///< [tokens][G] heads; `heads` is tokens * G
  std::span<const std::uint32_t> table;  ///< the row's blocks
  std::uint32_t first_position = 0;      ///< of the tile's first token
  std::uint32_t tokens = 0;
  std::size_t layer = 0;
  std::uint32_t kv_head = 0;

  std::uint32_t last_position() const { return first_position + tokens - 1; }
};

/// Attention of token tiles over the cache, with the memory that one thread needs for it.
class AttentionWorker {
 public:
  /// Most tokens of a tile.
  static constexpr std::uint32_t kTileTokens = 8;

  AttentionWorker() = default;
  /// `max_context`: positions a row can have.
  AttentionWorker(const AttentionShape& shape, std::uint32_t max_context);
  static std::uint64_t bytes(const AttentionShape& shape, std::uint32_t max_context);

  /// All splits of a tile and their merge; `mixed` [tokens][...] floats, `stride` from token to token, gets
  /// the G heads' outputs [G][E] side by side.
  void attend(const KernelSet& kernels, const KvStore& cache, const TokenTile& tile, float* mixed,
              std::size_t stride);

  /// One split of a tile; `partials` [tokens][G] of partial_floats(). Tokens before the split's first
  /// position leave theirs untouched.
  void attend_split(const KernelSet& kernels, const KvStore& cache, const TokenTile& tile,
                    std::uint32_t split, float* partials);

 private:
  AttentionShape shape_;
  AlignedBuffer<float> scores_;         // [heads][kScoreStride]
  AlignedBuffer<float> value_scales_;   // [B][256]
  AlignedBuffer<std::byte> weights_;    // [heads][B][SplitWeights::kBytes]
  AlignedBuffer<float> weight_scales_;  // [heads][B]
  AlignedBuffer<std::int32_t> sums_;    // [heads][E32]
  AlignedBuffer<float> partials_;       // [splits][heads] of partial_floats()
};

}  // namespace inferno::cpu
