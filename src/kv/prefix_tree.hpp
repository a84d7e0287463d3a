#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kv/block_pool.hpp"

namespace inferno {

/// Which cache blocks hold which beginnings of sequences. A node is a full block: the keys and values of
/// `block_size` tokens that follow those of its parent. A sequence that begins with the same tokens can take
/// the blocks over instead of computing them again.
///
/// - Tokens are compared, hashes only lead the way: two sequences that collide never get each other's blocks.
/// - The tree holds each of its blocks once in the pool. A sequence *pins* the nodes it uses; a node that
/// nobody
///   pins stays as long as nobody needs its block. `evict` frees the least recently used ones, ends of
///   branches first.
/// - A block that is going to be filled can be *promised*, so that whoever needs the same one can wait for it
///   instead of computing it at the same time. The tree holds no promised block.
/// - Namespaces keep trees apart.
///
/// Bookkeeping only; not thread-safe; the pool outlives it. Nodes are named by their block. Everything is
/// allocated at the start, but for namespaces.
class PrefixTree {
 public:
  using Namespace = std::uint32_t;
  /// Of a parent (see `key_of`) and a block's tokens.
  using Hash = std::uint64_t (*)(std::uint64_t seed, std::uint64_t parent,
                                 std::span<const std::int32_t> tokens);

  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;
  static std::uint64_t mix(std::uint64_t seed, std::uint64_t parent, std::span<const std::int32_t> tokens);

  /// `seed` should not be known to those who choose the tokens: it keeps them from making all nodes collide.
  PrefixTree(BlockPool& pool, std::uint32_t block_size, std::uint64_t seed = 0, Hash hash = mix);
  /// Frees every block that it holds.
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  std::uint32_t block_size() const { return block_size_; }
  /// A namespace's number; it stays until it was released as often as it was held and nothing of it is
  /// cached.
  Namespace hold_namespace(std::string_view name);
  void release_namespace(Namespace space);

  /// What of a sequence is there.
  struct Found {
    std::uint32_t promised = kNone;  ///< the node that comes next, if it is only promised
    std::uint32_t unpinned = 0;      ///< of the blocks found, those that could have been evicted
  };
  /// The blocks of the longest prefix of `tokens` that is there in full blocks, in order, into `blocks`.
  /// Changes nothing.
  Found find(Namespace space, std::span<const std::int32_t> tokens, std::vector<std::uint32_t>& blocks) const;

  /// Pins a path from its beginning / a part of it; `unpin` counts as use.
  void pin(std::span<const std::uint32_t> path);
  void unpin(std::span<const std::uint32_t> path);

  /// `block` holds `tokens` [block_size] after `parent` (kNone: at the beginning; else pinned). Returns the
  /// node that stands for them now, pinned for the caller: `block`, which the pool has as held by the caller
  /// and now by the tree too, or another that holds the same. A promise of the same tokens, whoever made it,
  /// is over.
  std::uint32_t insert(Namespace space, std::uint32_t parent, std::span<const std::int32_t> tokens,
                       std::uint32_t block);

  /// The caller is going to fill `block` with `tokens` after `parent` (kNone, pinned, or promised by the
  /// caller) and will then `insert` it. `rank` is for whoever finds the promise. False if somebody else's
  /// node stands there.
  bool promise(Namespace space, std::uint32_t parent, std::span<const std::int32_t> tokens,
               std::uint32_t block, std::int32_t rank);
  std::int32_t rank(std::uint32_t promised) const { return nodes_[promised].rank; }
  /// Tells a promise from others of the same block, and whether it is still to be kept.
  std::uint64_t promise_of(std::uint32_t promised) const { return nodes_[promised].used; }
  bool is_promised(std::uint32_t block, std::uint64_t promise) const {
    return nodes_[block].state == State::promised && nodes_[block].used == promise;
  }
  /// Takes back a promise of `block`, and those that follow it. Nothing happens if there is none any more.
  void withdraw(std::uint32_t block);

  /// Frees up to `count` blocks that nobody pins; returns how many.
  std::uint32_t evict(std::uint32_t count);

  std::uint32_t nodes() const { return ready_; }          ///< without promised ones
  std::uint32_t evictable() const { return evictable_; }  ///< nodes that nobody pins

 private:
  enum class State : std::uint8_t { none, promised, ready };
  struct Node {
    State state = State::none;
    std::uint64_t parent = 0;  // key_of
    std::uint64_t hash = 0;
    std::uint64_t used = 0;  // the time of its latest use, or of the promise
    std::uint32_t pins = 0;
    std::int32_t rank = 0;
    std::uint32_t next_in_bucket = kNone;
    std::uint32_t first_child = kNone, next_sibling = kNone, previous_sibling = kNone;
    std::uint32_t older = kNone, younger = kNone;  // among the ends of branches that nobody pins
    bool listed = false;
  };
  struct Space {
    std::string name;
    std::uint32_t users = 0;  // holders, and nodes at the beginning
  };

  static std::uint64_t key_of(Namespace space, std::uint32_t parent);
  std::span<const std::int32_t> tokens_of(std::uint32_t block) const;
  std::uint32_t look_up(std::uint64_t parent, std::uint64_t hash, std::span<const std::int32_t> tokens) const;
  void add(std::uint64_t parent, std::uint64_t hash, std::span<const std::int32_t> tokens,
           std::uint32_t block, State state);
  void remove(std::uint32_t block);
  void list(std::uint32_t block);
  void unlist(std::uint32_t block);
  void list_if_free(std::uint32_t block);

  BlockPool& pool_;
  std::uint32_t block_size_;
  std::uint64_t seed_;
  Hash hash_;
  std::vector<Node> nodes_;             // [blocks]
  std::vector<std::int32_t> tokens_;    // [blocks][block_size]
  std::vector<std::uint32_t> buckets_;  // [power of two] first node
  std::uint32_t oldest_ = kNone, youngest_ = kNone;
  std::uint64_t clock_ = 0;
  std::uint32_t ready_ = 0, evictable_ = 0;
  std::vector<Space> spaces_;
  std::vector<Namespace> free_spaces_;
  std::unordered_map<std::string, Namespace> space_of_name_;
};

}  // namespace inferno
