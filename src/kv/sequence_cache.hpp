#pragma once

#include <cstdint>
#include <optional>
#include <span>
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
  /// once). Throws Error with both numbers if the pool has too few blocks, UsageError if block_size or
  /// max_context is 0.
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

  /// Makes the table reach `positions` positions and its part from `length()` on belong to this sequence
  /// alone, ready to be written. False if the pool has too few blocks (nothing is taken then). Throws
  /// UsageError if `positions` is more than max_context, and if a copy is needed (see below).
  bool extend(std::uint32_t positions);
  /// The same for sequences that were forked and then truncated: if the block that holds position `length()`
  /// is shared, it is replaced by one of the sequence's own, and the copy that must be made before writing
  /// is returned through `copy` (else nullopt).
  bool extend(std::uint32_t positions, std::optional<BlockCopy>& copy);
  /// Begins with full blocks that hold this sequence's first positions already, each held once more: a prefix
  /// that was found. `paged` only, and nothing may be there yet (UsageError).
  void adopt(std::span<const std::uint32_t> blocks);
  /// Block `index`, whose positions are all written, is exchanged for another that holds the same.
  void replace(std::size_t index, std::uint32_t block);
  /// Positions up to `length` are written now. Throws UsageError if that is less than before (see truncate)
  /// or more than the table reaches.
  void advance(std::uint32_t length);
  /// Forgets positions from `length` on; `paged` gives back the blocks that are no longer needed, those that
  /// were taken ahead of writing among them. Throws UsageError if fewer positions are written.
  void truncate(std::uint32_t length);
  /// A second sequence with the same first `length()` positions, sharing full blocks. A partly filled last
  /// block must not be shared: it gets a block of its own and the copy to make is returned through `copy`
  /// (else nullopt). `paged` only (UsageError). Nullopt if the pool has no block for the copy; nothing is
  /// taken then.
  std::optional<SequenceCache> fork(std::optional<BlockCopy>& copy);

 private:
  std::uint32_t blocks_for(std::uint32_t positions) const;
  void release_from(std::size_t first) noexcept;

  BlockPool* pool_;
  KvKind kind_;
  std::uint32_t block_size_;
  std::uint32_t max_context_;
  std::uint32_t length_ = 0;
  std::vector<std::uint32_t> blocks_;
};

}  // namespace inferno
