#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace inferno::grammar {

/// Byte strings and the tokens that stand for them, as a trie in the order of a depth-first walk: a node's
/// subtree are the nodes right behind it, so that a walk is a loop that skips what does not fit.
class TokenTrie {
 public:
  using Entry = std::pair<std::string_view, std::uint32_t>;

  TokenTrie() = default;
  /// Strings are not empty; several tokens may have the same.
  explicit TokenTrie(std::vector<Entry> entries);

  std::uint32_t size() const { return static_cast<std::uint32_t>(bytes_.size()); }
  std::uint8_t byte(std::uint32_t node) const { return bytes_[node]; }
  /// Behind the node's subtree.
  std::uint32_t end(std::uint32_t node) const { return ends_[node]; }
  /// Tokens that end in this node.
  std::span<const std::uint32_t> tokens(std::uint32_t node) const {
    return {ids_.data() + token_begins_[node], ids_.data() + token_begins_[node + 1]};
  }
  std::size_t memory() const {
    return bytes_.size() * (1 + 2 * sizeof(std::uint32_t)) + ids_.size() * sizeof(std::uint32_t);
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> token_begins_{0};  ///< [nodes + 1]
  std::vector<std::uint32_t> ids_;
};

}  // namespace inferno::grammar
