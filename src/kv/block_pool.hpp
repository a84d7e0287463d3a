#pragma once

#include <cstdint>
#include <vector>

namespace inferno {

/// Hands out cache blocks and counts who holds them. Bookkeeping only: the storage belongs to the executor.
/// Not thread-safe; one owner.
class BlockPool {
 public:
  explicit BlockPool(std::uint32_t blocks);

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(holders_.size()); }
  std::uint32_t available() const { return available_; }
  std::uint32_t used() const { return capacity() - available(); }

  /// Takes `count` blocks, lowest free ids first, each held once; or none at all if there are too few
  /// (the result is then empty and `count` was more than available()).
  std::vector<std::uint32_t> take(std::uint32_t count);
  /// Takes `count` blocks with consecutive ids, the lowest such run; empty if there is none.
  std::vector<std::uint32_t> take_run(std::uint32_t count);
  /// One more holder of a block in use. Throws Error for a block that nobody holds.
  void hold(std::uint32_t block);
  /// One holder less; the last one frees the block. Throws Error for a block that nobody holds.
  void release(std::uint32_t block);
  std::uint32_t holders(std::uint32_t block) const;

 private:
  void check_held(std::uint32_t block, const char* call) const;
  void mark_taken(std::uint32_t block);

  std::vector<std::uint32_t> holders_;  // [blocks]
  std::vector<std::uint64_t> free_;     // [ceil(blocks / 64)] bit i % 64 of word i / 64: block i is free
  std::size_t first_word_ = 0;          // no word of free_ before it has a bit set
  std::uint32_t available_;
};

}  // namespace inferno
