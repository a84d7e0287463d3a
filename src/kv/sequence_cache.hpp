#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kv/block_pool.hpp"
#include "step/executor.hpp"

namespace inferno {

/// Three ways to fill a block table; attention sees no difference.
enum class KvKind : std::uint8_t {
  none,   ///< nothing is kept: every step recomputes the whole sequence from position 0
  basic,  ///< a contiguous run of blocks for the whole context, taken at the start
  paged,  ///< blocks are taken from the pool as the sequence grows
};

std::string_view kv_kind_name(KvKind kind);
/// Throws UsageError naming the accepted ones.
KvKind parse_kv_kind(std::string_view name);

/// One sequence's part of the cache: which blocks hold its positions, and how many positions are written.
/// Releases its blocks when destroyed. The pool outlives it.
class SequenceCache {
 public:
  /// `max_context`: positions the sequence may ever reach (`none` and `basic` take blocks for all of them at
  /// once). Throws Error with both numbers if the pool has too few blocks.
  SequenceCache(BlockPool& pool, KvKind kind, std::uint32_t block_size, std::uint32_t max_context);
  ~SequenceCache();
  SequenceCache(SequenceCache&& other) noexcept;
  SequenceCache& operator=(SequenceCache&& other) noexcept;
  SequenceCache(const SequenceCache&) = delete;
  SequenceCache& operator=(const SequenceCache&) = delete;

  KvKind kind() const { return kind_; }
  /// Positions whose keys and values are written; 0 always for `none`.
  std::uint32_t length() const { return length_; }
  const std::vector<std::uint32_t>& blocks() const { return blocks_; }

  /// Makes the table reach `positions` positions. False if the pool has too few blocks (nothing is taken
  /// then).
  bool extend(std::uint32_t positions);
  /// Positions up to `length` are written now.
  void advance(std::uint32_t length);
  /// Forgets positions from `length` on; `paged` gives back the blocks that are no longer needed.
  void truncate(std::uint32_t length);
  /// A second sequence with the same first `length()` positions, sharing full blocks. A partly filled last
  /// block must not be shared: it gets a block of its own and the copy to make is returned through `copy`.
  /// `paged` only.
  std::optional<SequenceCache> fork(std::optional<BlockCopy>& copy);

 private:
  SequenceCache(BlockPool& pool, std::uint32_t block_size, std::uint32_t max_context);

  BlockPool* pool_;
  KvKind kind_;
  std::uint32_t block_size_;
  std::uint32_t max_context_;
  std::uint32_t length_ = 0;
  std::vector<std::uint32_t> blocks_;
};

}  // namespace inferno
