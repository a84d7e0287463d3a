#pragma once

#include <cstdint>
#include <vector>

namespace inferno {

/// Hands out cache blocks and counts who holds them. Bookkeeping only: the storage belongs to the executor.
/// Not thread-safe; one owner.
class BlockPool {
 public:
  explicit BlockPool(std::uint32_t blocks);

  std::uint32_t capacity() const;
  std::uint32_t available() const;
  std::uint32_t used() const { return capacity() - available(); }

  /// Takes `count` blocks, lowest free ids first, each held once; or none at all if there are too few
  /// (the result is then empty and `count` was more than available()).
  std::vector<std::uint32_t> take(std::uint32_t count);
  /// Takes `count` blocks with consecutive ids, the lowest such run; empty if there is none.
  std::vector<std::uint32_t> take_run(std::uint32_t count);
  /// One more holder of a block in use.
  void hold(std::uint32_t block);
  /// One holder less; the last one frees the block. Throws Error for a block that nobody holds.
  void release(std::uint32_t block);
  std::uint32_t holders(std::uint32_t block) const;

 private:
  std::vector<std::uint32_t> holders_;  // [blocks]
  std::uint32_t available_;
};

}  // namespace inferno
