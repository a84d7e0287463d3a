#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace inferno::grammar {

/// Ids as a bit set (bit i % 32 of word i / 32) or, if they are few, as a list.
class TokenSet {
 public:
  TokenSet() = default;
  /// Of the bits that are set.
  explicit TokenSet(std::span<const std::uint32_t> words);

  void add_to(std::span<std::uint32_t> words) const;
  std::size_t bytes() const { return (words_.size() + ids_.size()) * sizeof(std::uint32_t) + sizeof(*this); }

 private:
  std::vector<std::uint32_t> words_;
  std::vector<std::uint32_t> ids_;
};

inline void set_bit(std::span<std::uint32_t> words, std::uint32_t id) {
  words[id / 32] |= std::uint32_t{1} << (id % 32);
}

}  // namespace inferno::grammar
