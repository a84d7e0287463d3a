#include "tokenizer/bpe.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>

#include <inferno/error.hpp>

#include "platform/log.hpp"
#include "tokenizer/byte_alphabet.hpp"

namespace inferno {
namespace {

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) |
         static_cast<std::uint32_t>(right);
}

std::size_t slots_for(std::size_t expected) {
  std::size_t slots = 16;
  while (slots < 2 * expected) slots *= 2;
  return slots;
}

/// What words can consist of. User-defined tokens are in: they may double as results of merges.
bool takes_part(TokenType type) {
  return type == TokenType::normal || type == TokenType::byte || type == TokenType::user_defined;
}

}  // namespace

MergeTable::MergeTable(std::size_t expected) : slots_(slots_for(expected)), mask_(slots_.size() - 1) {}

std::size_t MergeTable::slot_of(std::uint64_t key) const {
  key ^= key >> 31U;
  key *= 0x9E3779B97F4A7C15U;  // Fibonacci hashing: the high bits are well mixed
  return static_cast<std::size_t>(key >> 32U) & mask_;
}

bool MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = pair_key(left, right);
  std::size_t slot = slot_of(key);
  for (; slots_[slot].key != kFree; slot = (slot + 1) & mask_) {
    if (slots_[slot].key == key) return false;
  }
  slots_[slot] = {key, merge};
  return true;
}

const MergeTable::Merge* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = pair_key(left, right);
  for (std::size_t slot = slot_of(key);; slot = (slot + 1) & mask_) {
    if (slots_[slot].key == key) return &slots_[slot].merge;
    if (slots_[slot].key == kFree) return nullptr;
  }
}

Bpe::Bpe(const Vocabulary& vocabulary) : merges_(vocabulary.merges.size()) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  ids.reserve(vocabulary.tokens.size());
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    // Ids ascend, so the lowest id of equal strings is kept.
    if (takes_part(vocabulary.types[id]))
      ids.try_emplace(vocabulary.tokens[id], static_cast<std::int32_t>(id));
  }
  const auto id_of = [&ids](std::string_view token) {
    const auto found = ids.find(token);
    return found == ids.end() ? kNone : found->second;
  };

  std::size_t missing_bytes = 0;
  for (std::size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
    byte_tokens_[byte] = id_of(alphabet_character(static_cast<std::uint8_t>(byte)));
    if (byte_tokens_[byte] == kNone) ++missing_bytes;
  }
  if (missing_bytes > 0) {
    log().warn("the vocabulary has no token for {} of the 256 bytes; text with one of them will be refused",
               missing_bytes);
  }

  std::size_t ignored = 0;
  std::string first_ignored;
  std::string merged;
  for (std::size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const auto& [left, right] = vocabulary.merges[rank];
    merged.assign(left).append(right);
    const std::int32_t left_id = id_of(left);
    const std::int32_t right_id = id_of(right);
    const std::int32_t result = id_of(merged);
    const bool usable =
        left_id != kNone && right_id != kNone && result != kNone && !left.empty() && !right.empty();
    if (usable && merges_.insert(left_id, right_id, {static_cast<std::uint32_t>(rank), result})) continue;
    if (ignored++ == 0) {
      first_ignored =
          fmt::format("\"{} {}\" at rank {} {}", left, right, rank,
                      usable ? "repeats an earlier one" : "has a part or a result that is no text token");
    }
  }
  if (ignored > 0)
    log().warn("ignoring {} of {} merges: {}", ignored, vocabulary.merges.size(), first_ignored);
}

std::int32_t Bpe::byte_token(std::uint8_t byte) const {
  const std::int32_t id = byte_tokens_[byte];
  if (id == kNone) {
    throw Error(
        fmt::format("the text holds byte 0x{:02X}, for which the model's vocabulary has no token", byte));
  }
  return id;
}

void Bpe::look_up(Scratch& scratch, std::uint32_t at) const {
  auto& symbol = scratch.symbols[at];
  symbol.rank = kNoMerge;
  if (symbol.next == kEnd) return;
  if (const auto* merge = merges_.find(symbol.id, scratch.symbols[symbol.next].id)) {
    symbol.rank = merge->rank;
    symbol.merged = merge->result;
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  auto& symbols = scratch.symbols;
  const auto count = static_cast<std::uint32_t>(word.size());
  symbols.resize(count);
  for (std::uint32_t at = 0; at < count; ++at) {
    symbols[at] = {.id = byte_token(static_cast<std::uint8_t>(word[at])),
                   .previous = at == 0 ? kEnd : at - 1,
                   .next = at + 1 == count ? kEnd : at + 1,
                   .rank = kNoMerge,
                   .merged = kNone};
  }
  merge_all(scratch);
  if (symbols.empty()) return;
  for (std::uint32_t at = 0; at != kEnd; at = symbols[at].next) ids.push_back(symbols[at].id);
}

void Bpe::merge_all(Scratch& scratch) const {
  // A priority queue of (rank, position) over a linked list of symbols. An entry is stale if its
  // symbol is gone (rank kNoMerge) or stands before another pair now (other rank; an equal rank means the
  // same pair, since every pair has its own).
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  const auto entry = [&symbols](std::uint32_t at) {
    return (static_cast<std::uint64_t>(symbols[at].rank) << 32U) | at;
  };
  queue.clear();
  for (std::uint32_t at = 0; at < symbols.size(); ++at) {
    look_up(scratch, at);
    if (symbols[at].rank != kNoMerge) queue.push_back(entry(at));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto renew = [&](std::uint32_t at) {
    look_up(scratch, at);
    if (symbols[at].rank == kNoMerge) return;
    queue.push_back(entry(at));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    const std::uint64_t top = queue.back();
    queue.pop_back();
    const auto at = static_cast<std::uint32_t>(top);
    auto& symbol = symbols[at];
    if (symbol.rank == kNoMerge || entry(at) != top) continue;
    auto& gone = symbols[symbol.next];
    symbol.id = symbol.merged;
    symbol.next = gone.next;
    gone.rank = kNoMerge;
    if (symbol.next != kEnd) symbols[symbol.next].previous = at;
    renew(at);
    if (symbol.previous != kEnd) renew(symbol.previous);
  }
}

}  // namespace inferno
