#include "kv/block_pool.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

#include <inferno/error.hpp>

namespace inferno {
namespace {

constexpr std::uint32_t kWordBits = 64;

}  // namespace

BlockPool::BlockPool(std::uint32_t blocks)
    : holders_(blocks, 0),
      free_((std::size_t{blocks} + kWordBits - 1) / kWordBits, ~std::uint64_t{0}),
      available_(blocks) {
  if (blocks % kWordBits != 0) free_.back() = (std::uint64_t{1} << blocks % kWordBits) - 1;
}

void BlockPool::mark_taken(std::uint32_t block) {
  free_[block / kWordBits] &= ~(std::uint64_t{1} << block % kWordBits);
  holders_[block] = 1;
  --available_;
}

std::vector<std::uint32_t> BlockPool::take(std::uint32_t count) {
  std::vector<std::uint32_t> taken;
  if (count > available_) return taken;
  taken.reserve(count);
  while (taken.size() < count) {
    const std::uint64_t word = free_[first_word_];
    if (word == 0) {
      ++first_word_;
      continue;
    }
    taken.push_back(static_cast<std::uint32_t>(first_word_) * kWordBits +
                    static_cast<std::uint32_t>(std::countr_zero(word)));
    mark_taken(taken.back());
  }
  return taken;
}

// A scan of the counts: runs are taken once per sequence, not per step.
std::vector<std::uint32_t> BlockPool::take_run(std::uint32_t count) {
  std::vector<std::uint32_t> taken;
  if (count == 0 || count > available_) return taken;
  std::uint32_t run = 0;
  for (std::uint32_t block = 0; block < capacity(); ++block) {
    run = holders_[block] == 0 ? run + 1 : 0;
    if (run < count) continue;
    taken.reserve(count);
    for (std::uint32_t id = block + 1 - count; id <= block; ++id) {
      taken.push_back(id);
      mark_taken(id);
    }
    break;
  }
  return taken;
}

void BlockPool::check_held(std::uint32_t block, const char* call) const {
  if (block >= capacity()) {
    throw Error(fmt::format("block pool: {} of block {}; there are {} blocks", call, block, capacity()));
  }
  if (holders_[block] == 0)
    throw Error(fmt::format("block pool: {} of block {}, which nobody holds", call, block));
}

void BlockPool::hold(std::uint32_t block) {
  check_held(block, "hold");
  ++holders_[block];
}

void BlockPool::release(std::uint32_t block) {
  check_held(block, "release");
  if (--holders_[block] != 0) return;
  free_[block / kWordBits] |= std::uint64_t{1} << block % kWordBits;
  first_word_ = std::min<std::size_t>(first_word_, block / kWordBits);
  ++available_;
}

std::uint32_t BlockPool::holders(std::uint32_t block) const {
  if (block >= capacity()) {
    throw Error(fmt::format("block pool: holders of block {}; there are {} blocks", block, capacity()));
  }
  return holders_[block];
}

}  // namespace inferno
