#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/vocabulary.hpp"

namespace inferno {

/// (left id, right id) -> (rank, merged id): an open-addressing table, because a lookup per neighbouring
/// pair is what encoding spends its time on.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = 0;
    std::int32_t result = 0;
  };

  explicit MergeTable(std::size_t expected);

  /// False if the pair is there already; then nothing changes.
  bool insert(std::int32_t left, std::int32_t right, Merge merge);
  /// The pair's merge, or nullptr.
  const Merge* find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no pair of ids: ids are not negative
  std::size_t slot_of(std::uint64_t key) const;

  std::vector<Slot> slots_;
  std::size_t mask_;
};

/// Byte-pair encoding of single words: bytes become tokens, then the neighbouring pair with the lowest rank
/// (the leftmost of equals) is merged until no pair is in the table. Immutable.
class Bpe {
 public:
  /// Memory that calls of one thread reuse.
  struct Scratch {
    struct Symbol {
      std::int32_t id;
      std::uint32_t previous;
      std::uint32_t next;
      std::uint32_t rank;   ///< of the merge with the next symbol; kNoMerge: there is none
      std::int32_t merged;  ///< what that merge gives
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> queue;
  };

  /// Takes single-byte tokens and merges from a vocabulary. What can't be used (a merge of or into something
  /// that is no token, a byte without a token) is left out with one warning for each kind. Control tokens
  /// take no part: no text can merge into one.
  explicit Bpe(const Vocabulary& vocabulary);

  /// Appends the ids of `word` (any bytes, less than 2^32). O(n log n), not recursive.
  /// Throws Error for a byte that the vocabulary has no token for.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

  /// The token of one byte. Throws Error if the vocabulary has none.
  std::int32_t byte_token(std::uint8_t byte) const;

 private:
  static constexpr std::uint32_t kNoMerge = ~std::uint32_t{0};
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};  ///< no previous, no next symbol
  static constexpr std::int32_t kNone = -1;

  void look_up(Scratch& scratch, std::uint32_t at) const;
  void merge_all(Scratch& scratch) const;

  std::array<std::int32_t, 256> byte_tokens_{};
  MergeTable merges_;
};

}  // namespace inferno
