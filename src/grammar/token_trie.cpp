#include "grammar/token_trie.hpp"

#include <algorithm>

namespace inferno::grammar {

TokenTrie::TokenTrie(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end());
  std::vector<std::uint32_t> path;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) ends_[path.back()] = size();
  };
  token_begins_.clear();
  std::string_view before;
  for (const auto& [text, id] : entries) {
    const auto differs = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    close(static_cast<std::size_t>(differs.second - text.begin()));
    while (path.size() < text.size()) {
      path.push_back(size());
      bytes_.push_back(static_cast<std::uint8_t>(text[path.size() - 1]));
      ends_.push_back(0);
      token_begins_.push_back(static_cast<std::uint32_t>(ids_.size()));
    }
    ids_.push_back(id);
    before = text;
  }
  close(0);
  token_begins_.push_back(static_cast<std::uint32_t>(ids_.size()));
}

}  // namespace inferno::grammar
