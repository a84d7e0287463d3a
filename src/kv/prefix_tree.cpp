#include "kv/prefix_tree.hpp"

#include <algorithm>
#include <bit>
#include <ranges>

namespace inferno {
namespace {

/// Set in the keys of namespaces, to tell them from blocks.
constexpr std::uint64_t kSpaceBit = std::uint64_t{1} << 63;

std::uint64_t scramble(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9U;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t PrefixTree::mix(std::uint64_t seed, std::uint64_t parent,
                              std::span<const std::int32_t> tokens) {
  std::uint64_t hash = scramble(seed ^ scramble(parent));
  for (const std::int32_t token : tokens) {
    hash = scramble(hash + 0x9E3779B97F4A7C15U + static_cast<std::uint32_t>(token));
  }
  return hash;
}

PrefixTree::PrefixTree(BlockPool& pool, std::uint32_t block_size, std::uint64_t seed, Hash hash)
    : pool_(pool),
      block_size_(block_size),
      seed_(seed),
      hash_(hash),
      nodes_(pool.capacity()),
      tokens_(std::size_t{pool.capacity()} * block_size),
      buckets_(std::bit_ceil(std::size_t{2} * pool.capacity() + 1), kNone) {}

PrefixTree::~PrefixTree() {
  for (std::uint32_t block = 0; block < nodes_.size(); ++block) {
    if (nodes_[block].state == State::ready) pool_.release(block);
  }
}

PrefixTree::Namespace PrefixTree::hold_namespace(std::string_view name) {
  const auto [at, added] = space_of_name_.try_emplace(std::string(name), 0);
  if (added) {
    if (free_spaces_.empty()) {
      free_spaces_.push_back(static_cast<Namespace>(spaces_.size()));
      spaces_.emplace_back();
    }
    at->second = free_spaces_.back();
    free_spaces_.pop_back();
    spaces_[at->second] = {std::string(name), 0};
  }
  ++spaces_[at->second].users;
  return at->second;
}

void PrefixTree::release_namespace(Namespace space) {
  if (--spaces_[space].users != 0) return;
  space_of_name_.erase(spaces_[space].name);
  spaces_[space].name.clear();
  free_spaces_.push_back(space);
}

std::uint64_t PrefixTree::key_of(Namespace space, std::uint32_t parent) {
  return parent == kNone ? kSpaceBit | space : parent;
}

std::span<const std::int32_t> PrefixTree::tokens_of(std::uint32_t block) const {
  return std::span(tokens_).subspan(std::size_t{block} * block_size_, block_size_);
}

std::uint32_t PrefixTree::look_up(std::uint64_t parent, std::uint64_t hash,
                                  std::span<const std::int32_t> tokens) const {
  auto block = buckets_[hash & (buckets_.size() - 1)];
  for (; block != kNone; block = nodes_[block].next_in_bucket) {
    const Node& node = nodes_[block];
    if (node.hash != hash || node.parent != parent) continue;
    if (std::ranges::equal(tokens_of(block), tokens)) return block;
  }
  return kNone;
}

PrefixTree::Found PrefixTree::find(Namespace space, std::span<const std::int32_t> tokens,
                                   std::vector<std::uint32_t>& blocks) const {
  blocks.clear();
  Found found;
  std::uint32_t parent = kNone;
  for (; tokens.size() >= block_size_; tokens = tokens.subspan(block_size_)) {
    const auto piece = tokens.first(block_size_);
    const auto key = key_of(space, parent);
    const auto block = look_up(key, hash_(seed_, key, piece), piece);
    if (block == kNone) break;
    if (nodes_[block].state == State::promised) {
      found.promised = block;
      break;
    }
    found.unpinned += nodes_[block].pins == 0 ? 1 : 0;
    blocks.push_back(block);
    parent = block;
  }
  return found;
}

void PrefixTree::pin(std::span<const std::uint32_t> path) {
  for (const auto block : path) {
    if (nodes_[block].pins++ != 0) continue;
    --evictable_;
    if (nodes_[block].listed) unlist(block);
  }
}

// From the end, so that what lies deeper counts as older and is evicted before what it builds on.
void PrefixTree::unpin(std::span<const std::uint32_t> path) {
  for (const std::uint32_t block : std::views::reverse(path)) {
    Node& node = nodes_[block];
    if (--node.pins != 0) continue;
    node.used = ++clock_;
    ++evictable_;
    list_if_free(block);
  }
}

std::uint32_t PrefixTree::insert(Namespace space, std::uint32_t parent, std::span<const std::int32_t> tokens,
                                 std::uint32_t block) {
  const auto key = key_of(space, parent);
  const auto hash = hash_(seed_, key, tokens);
  const auto there = look_up(key, hash, tokens);
  if (there != kNone && nodes_[there].state == State::ready) {
    withdraw(block);
    pin({&there, 1});
    return there;
  }
  if (there == block) {
    nodes_[block].state = State::ready;
  } else {
    if (there != kNone) withdraw(there);
    withdraw(block);
    add(key, hash, tokens, block, State::ready);
  }
  nodes_[block].pins = 1;
  ++ready_;
  pool_.hold(block);
  return block;
}

bool PrefixTree::promise(Namespace space, std::uint32_t parent, std::span<const std::int32_t> tokens,
                         std::uint32_t block, std::int32_t rank) {
  const auto key = key_of(space, parent);
  const auto hash = hash_(seed_, key, tokens);
  if (look_up(key, hash, tokens) != kNone) return false;
  add(key, hash, tokens, block, State::promised);
  nodes_[block].rank = rank;
  nodes_[block].used = ++clock_;
  return true;
}

void PrefixTree::withdraw(std::uint32_t block) {
  if (nodes_[block].state != State::promised) return;
  // A chain: whoever promised a block promised what follows it, or nobody did.
  auto last = block;
  while (nodes_[last].first_child != kNone) last = nodes_[last].first_child;
  for (;;) {
    const auto parent = nodes_[last].parent;
    const bool done = last == block;
    remove(last);
    if (done) return;
    last = static_cast<std::uint32_t>(parent);
  }
}

std::uint32_t PrefixTree::evict(std::uint32_t count) {
  std::uint32_t freed = 0;
  for (; freed < count && oldest_ != kNone; ++freed) {
    const auto block = oldest_;
    const auto parent = nodes_[block].parent;
    unlist(block);
    remove(block);
    --ready_;
    --evictable_;
    pool_.release(block);
    if ((parent & kSpaceBit) == 0) list_if_free(static_cast<std::uint32_t>(parent));
  }
  return freed;
}

void PrefixTree::add(std::uint64_t parent, std::uint64_t hash, std::span<const std::int32_t> tokens,
                     std::uint32_t block, State state) {
  Node& node = nodes_[block];
  node = Node{};
  node.state = state;
  node.parent = parent;
  node.hash = hash;
  auto& bucket = buckets_[hash & (buckets_.size() - 1)];
  node.next_in_bucket = bucket;
  bucket = block;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(std::size_t{block} * block_size_));
  if ((parent & kSpaceBit) != 0) {
    ++spaces_[static_cast<Namespace>(parent)].users;
    return;
  }
  Node& above = nodes_[parent];
  node.next_sibling = above.first_child;
  if (above.first_child != kNone) nodes_[above.first_child].previous_sibling = block;
  above.first_child = block;
}

/// Takes a node without children out of its bucket and from its parent.
void PrefixTree::remove(std::uint32_t block) {
  Node& node = nodes_[block];
  auto* link = &buckets_[node.hash & (buckets_.size() - 1)];
  while (*link != block) link = &nodes_[*link].next_in_bucket;
  *link = node.next_in_bucket;
  if ((node.parent & kSpaceBit) != 0) {
    release_namespace(static_cast<Namespace>(node.parent));
  } else {
    if (node.previous_sibling != kNone) {
      nodes_[node.previous_sibling].next_sibling = node.next_sibling;
    } else {
      nodes_[node.parent].first_child = node.next_sibling;
    }
    if (node.next_sibling != kNone) nodes_[node.next_sibling].previous_sibling = node.previous_sibling;
  }
  node.state = State::none;
}

void PrefixTree::list_if_free(std::uint32_t block) {
  const Node& node = nodes_[block];
  if (node.state == State::ready && node.pins == 0 && node.first_child == kNone && !node.listed) list(block);
}

/// By time of use. A node is either the latest (it was just used) or was used by about whoever used the child
/// that was just evicted, the oldest: both are found in a few steps from their end of the list.
void PrefixTree::list(std::uint32_t block) {
  Node& node = nodes_[block];
  std::uint32_t before = youngest_;  // the node it follows
  if (youngest_ != kNone && nodes_[youngest_].used > node.used) {
    std::uint32_t after = oldest_;
    while (nodes_[after].used < node.used) after = nodes_[after].younger;
    before = nodes_[after].older;
  }
  node.older = before;
  node.younger = before == kNone ? oldest_ : nodes_[before].younger;
  (before == kNone ? oldest_ : nodes_[before].younger) = block;
  (node.younger == kNone ? youngest_ : nodes_[node.younger].older) = block;
  node.listed = true;
}

void PrefixTree::unlist(std::uint32_t block) {
  Node& node = nodes_[block];
  (node.older == kNone ? oldest_ : nodes_[node.older].younger) = node.younger;
  (node.younger == kNone ? youngest_ : nodes_[node.younger].older) = node.older;
  node.listed = false;
}

}  // namespace inferno
