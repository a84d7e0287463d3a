#include "tokenizer/added_tokens.hpp"

#include <algorithm>
#include <map>

namespace inferno {

AddedTokenMatcher::AddedTokenMatcher(const std::vector<std::pair<std::string, std::int32_t>>& tokens) {
  // The trie, with edges in maps while it grows.
  std::vector<std::map<std::uint8_t, Node>> children(1);
  longest_.assign(1, kNone);
  for (const auto& [text, id] : tokens) {
    Node node = kRoot;
    for (const char byte : std::string(text.rbegin(), text.rend())) {
      const auto [edge, added] =
          children[node].try_emplace(static_cast<std::uint8_t>(byte), static_cast<Node>(children.size()));
      node = edge->second;
      if (added) {
        children.emplace_back();
        longest_.push_back(kNone);
      }
    }
    longest_[node] = static_cast<std::int32_t>(tokens_.size());
    tokens_.emplace_back(text.size(), id);
  }

  first_edge_.reserve(children.size() + 1);
  for (const auto& edges : children) {
    first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
    for (const auto& [byte, to] : edges) edges_.push_back({byte, to});
  }
  first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
  for (const auto& [byte, to] : children[kRoot]) root_children_[byte] = to;

  // Breadth first, so that a node's fallback is finished before the node.
  fallback_.assign(children.size(), kRoot);
  std::vector<Node> order;
  order.reserve(children.size());
  order.push_back(kRoot);
  for (std::size_t at = 0; at < order.size(); ++at) {
    const Node node = order[at];
    for (const auto& [byte, to] : children[node]) {
      if (node != kRoot) fallback_[to] = next(fallback_[node], byte);
      if (longest_[to] == kNone) longest_[to] = longest_[fallback_[to]];
      order.push_back(to);
    }
  }
}

AddedTokenMatcher::Node AddedTokenMatcher::child(Node node, std::uint8_t byte) const {
  if (node == kRoot) return root_children_[byte];
  const auto begin = edges_.begin() + first_edge_[node];
  const auto end = edges_.begin() + first_edge_[node + 1];
  const auto edge =
      std::lower_bound(begin, end, byte, [](const Edge& e, std::uint8_t b) { return e.byte < b; });
  return edge != end && edge->byte == byte ? edge->to : kRoot;
}

AddedTokenMatcher::Node AddedTokenMatcher::next(Node node, std::uint8_t byte) const {
  for (;;) {
    const Node to = child(node, byte);
    if (to != kRoot || node == kRoot) return to;
    node = fallback_[node];
  }
}

std::vector<AddedTokenMatcher::Match> AddedTokenMatcher::find(std::string_view text) const {
  std::vector<Match> starts;  // the longest match at every byte that has one, last byte first
  Node node = kRoot;
  for (std::size_t at = text.size(); at-- > 0;) {
    node = next(node, static_cast<std::uint8_t>(text[at]));
    if (longest_[node] == kNone) continue;
    const auto& [length, id] = tokens_[static_cast<std::size_t>(longest_[node])];
    starts.push_back({.begin = at, .end = at + length, .id = id});
  }
  std::vector<Match> matches;
  std::size_t free_from = 0;
  std::reverse(starts.begin(), starts.end());
  for (const auto& start : starts) {
    if (start.begin < free_from) continue;
    matches.push_back(start);
    free_from = start.end;
  }
  return matches;
}

}  // namespace inferno
