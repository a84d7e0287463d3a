#include "kv/sequence_cache.hpp"

#include <fmt/format.h>
#include <utility>

#include <inferno/error.hpp>

#include "platform/quote.hpp"

namespace inferno {

std::string_view kv_kind_name(KvKind kind) {
  switch (kind) {
    case KvKind::none:
      return "none";
    case KvKind::basic:
      return "basic";
    case KvKind::paged:
      return "paged";
  }
  return "unknown";
}

KvKind parse_kv_kind(std::string_view name) {
  for (const KvKind kind : {KvKind::none, KvKind::basic, KvKind::paged}) {
    if (name == kv_kind_name(kind)) return kind;
  }
  throw UsageError(fmt::format("unknown kind of KV cache {}; expected none, basic or paged", quote(name)));
}

SequenceCache::SequenceCache(BlockPool& pool, KvKind kind, std::uint32_t block_size,
                             std::uint32_t max_context)
    : pool_(&pool), kind_(kind), block_size_(block_size), max_context_(max_context) {
  if (block_size == 0) throw UsageError("sequence cache: block_size: expected at least 1, found 0");
  if (max_context == 0) throw UsageError("sequence cache: max_context: expected at least 1, found 0");
  if (kind == KvKind::paged) return;
  const std::uint32_t needed = blocks_for(max_context);
  blocks_ = kind == KvKind::basic ? pool.take_run(needed) : pool.take(needed);
  if (!blocks_.empty()) return;
  throw Error(fmt::format(
      "the cache has {} of {} blocks free{}; {} positions need {} blocks of {}; ask for a shorter "
      "context or reserve more blocks",
      pool.available(), pool.capacity(), pool.available() >= needed ? ", but not in one run" : "",
      max_context, needed, block_size));
}

SequenceCache::~SequenceCache() {
  release_from(0);
}

SequenceCache::SequenceCache(SequenceCache&& other) noexcept
    : pool_(other.pool_),
      kind_(other.kind_),
      block_size_(other.block_size_),
      max_context_(other.max_context_),
      length_(std::exchange(other.length_, 0)),
      blocks_(std::exchange(other.blocks_, {})) {}

SequenceCache& SequenceCache::operator=(SequenceCache&& other) noexcept {
  if (this == &other) return *this;
  release_from(0);
  pool_ = other.pool_;
  kind_ = other.kind_;
  block_size_ = other.block_size_;
  max_context_ = other.max_context_;
  length_ = std::exchange(other.length_, 0);
  blocks_ = std::exchange(other.blocks_, {});
  return *this;
}

std::uint32_t SequenceCache::blocks_for(std::uint32_t positions) const {
  return positions / block_size_ + (positions % block_size_ == 0 ? 0 : 1);
}

// Only blocks that this sequence holds are released, so the pool has nothing to object to.
void SequenceCache::release_from(std::size_t first) noexcept {
  for (std::size_t i = first; i < blocks_.size(); ++i) pool_->release(blocks_[i]);
  if (first < blocks_.size()) blocks_.resize(first);
}

bool SequenceCache::extend(std::uint32_t positions) {
  const std::size_t writes_to = length_ / block_size_;
  if (positions > length_ && writes_to < blocks_.size() && pool_->holders(blocks_[writes_to]) > 1) {
    throw UsageError(
        fmt::format("sequence cache: position {} is in block {}, which is shared with another sequence; "
                    "use the extend that returns the copy to make",
                    length_, blocks_[writes_to]));
  }
  std::optional<BlockCopy> copy;
  return extend(positions, copy);
}

bool SequenceCache::extend(std::uint32_t positions, std::optional<BlockCopy>& copy) {
  copy.reset();
  if (positions > max_context_) {
    throw UsageError(
        fmt::format("sequence cache: {} positions are more than the context of {}", positions, max_context_));
  }
  // Blocks after the one that holds position length() are never shared: fork shares written positions only,
  // and truncate gives back what lies behind.
  const std::size_t writes_to = length_ / block_size_;
  const bool shared =
      positions > length_ && writes_to < blocks_.size() && pool_->holders(blocks_[writes_to]) > 1;
  const std::uint32_t reached = static_cast<std::uint32_t>(blocks_.size());
  const std::uint32_t needed = blocks_for(positions);
  const std::uint32_t more = needed > reached ? needed - reached : 0;
  if (more == 0 && !shared) return true;

  auto taken = pool_->take(more + (shared ? 1 : 0));
  if (taken.empty()) return false;
  auto next = taken.begin();
  if (shared) {
    copy = BlockCopy{blocks_[writes_to], *next};
    pool_->release(blocks_[writes_to]);
    blocks_[writes_to] = *next++;
  }
  blocks_.insert(blocks_.end(), next, taken.end());
  return true;
}

void SequenceCache::adopt(std::span<const std::uint32_t> blocks) {
  if (kind_ != KvKind::paged || !blocks_.empty()) {
    throw UsageError(fmt::format(
        "sequence cache: adopt needs paged blocks and an empty table; these are {}, the table has {}",
        kv_kind_name(kind_), blocks_.size()));
  }
  if (blocks.size() > blocks_for(max_context_)) {
    throw UsageError(fmt::format("sequence cache: {} blocks of {} positions are more than the context of {}",
                                 blocks.size(), block_size_, max_context_));
  }
  for (const auto block : blocks) {
    pool_->hold(block);
    blocks_.push_back(block);
  }
  length_ = static_cast<std::uint32_t>(blocks.size()) * block_size_;
}

void SequenceCache::replace(std::size_t index, std::uint32_t block) {
  if (index >= length_ / block_size_) {
    throw UsageError(
        fmt::format("sequence cache: replace of block {}; {} are full", index, length_ / block_size_));
  }
  pool_->hold(block);
  pool_->release(blocks_[index]);
  blocks_[index] = block;
}

void SequenceCache::advance(std::uint32_t length) {
  if (kind_ == KvKind::none) return;
  if (length < length_) {
    throw UsageError(fmt::format("sequence cache: advance to {} positions, but {} are written; use truncate",
                                 length, length_));
  }
  const std::uint64_t reached = std::uint64_t{block_size_} * blocks_.size();
  if (length > reached || length > max_context_) {
    throw UsageError(
        fmt::format("sequence cache: advance to {} positions, but the table reaches {} and the context is "
                    "{}; extend first",
                    length, reached, max_context_));
  }
  length_ = length;
}

void SequenceCache::truncate(std::uint32_t length) {
  if (kind_ == KvKind::none) return;
  if (length > length_) {
    throw UsageError(
        fmt::format("sequence cache: truncate to {} positions, but only {} are written", length, length_));
  }
  length_ = length;
  if (kind_ == KvKind::paged) release_from(blocks_for(length));
}

std::optional<SequenceCache> SequenceCache::fork(std::optional<BlockCopy>& copy) {
  copy.reset();
  if (kind_ != KvKind::paged) {
    throw UsageError(
        fmt::format("sequence cache: fork needs paged blocks; these are {}", kv_kind_name(kind_)));
  }
  const std::size_t full = length_ / block_size_;
  std::vector<std::uint32_t> last;
  if (length_ % block_size_ != 0) {
    last = pool_->take(1);
    if (last.empty()) return std::nullopt;
    copy = BlockCopy{blocks_[full], last.front()};
  }
  std::optional<SequenceCache> other(std::in_place, *pool_, kind_, block_size_, max_context_);
  other->length_ = length_;
  other->blocks_.reserve(full + last.size());
  for (std::size_t i = 0; i < full; ++i) {
    pool_->hold(blocks_[i]);
    other->blocks_.push_back(blocks_[i]);
  }
  other->blocks_.insert(other->blocks_.end(), last.begin(), last.end());
  return other;
}

}  // namespace inferno
