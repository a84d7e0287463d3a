#include "grammar/token_set.hpp"

#include <bit>

namespace inferno::grammar {

TokenSet::TokenSet(std::span<const std::uint32_t> words) {
  std::size_t count = 0;
  for (const auto word : words) count += static_cast<std::size_t>(std::popcount(word));
  if (count >= words.size()) {
    words_.assign(words.begin(), words.end());
    return;
  }
  ids_.reserve(count);
  for (std::uint32_t i = 0; i < words.size(); ++i) {
    for (auto word = words[i]; word != 0; word &= word - 1)
      ids_.push_back(i * 32 + static_cast<std::uint32_t>(std::countr_zero(word)));
  }
}

void TokenSet::add_to(std::span<std::uint32_t> words) const {
  for (std::size_t i = 0; i < words_.size(); ++i) words[i] |= words_[i];
  for (const auto id : ids_) set_bit(words, id);
}

}  // namespace inferno::grammar
