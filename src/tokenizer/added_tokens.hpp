#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace inferno {

/// Finds added tokens ("<|im_end|>", "<think>") in text: leftmost first, the longest of those that start at
/// the same byte. Linear time whatever the text and the tokens are. Immutable.
class AddedTokenMatcher {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::int32_t id = 0;
  };

  /// Tokens with their ids; none is empty, no two are equal.
  explicit AddedTokenMatcher(const std::vector<std::pair<std::string, std::int32_t>>& tokens);

  /// All matches in `text`, in order, not overlapping.
  std::vector<Match> find(std::string_view text) const;

 private:
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr std::int32_t kNone = -1;

  Node child(Node node, std::uint8_t byte) const;  ///< kRoot if there is none
  Node next(Node node, std::uint8_t byte) const;

  // Aho-Corasick over the tokens spelled backwards: reading a text from its end, the longest token found at a
  // byte is the longest token that starts there, so one pass over the bytes and one over the matches
  // give leftmost-longest matching in linear time. A trie tried at every byte would be quadratic for
  // long tokens of one repeated character.
  struct Edge {
    std::uint8_t byte;
    Node to;
  };
  std::array<Node, 256> root_children_{};
  std::vector<std::uint32_t> first_edge_;  ///< by node, and one past the last: its edges, ascending by byte
  std::vector<Edge> edges_;
  std::vector<Node> fallback_;         ///< by node: the longest proper suffix that is a node
  std::vector<std::int32_t> longest_;  ///< by node: index of the longest token ending here, or kNone
  std::vector<std::pair<std::size_t, std::int32_t>> tokens_;  ///< (length in bytes, id)
};

}  // namespace inferno
