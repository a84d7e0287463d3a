#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.hpp"
#include "grammar/recent_cache.hpp"
#include "grammar/text_machine.hpp"
#include "grammar/token_set.hpp"
#include "grammar/token_trie.hpp"
#include "grammar/work_meter.hpp"

namespace inferno::grammar {

/// What all tokens do to a text that stands somewhere between its quotes.
struct TextSummary {
  TokenSet inside;  ///< stay in the text, or end with its closing quote
  TokenTrie after;  ///< go on behind the quote: what is left of them

  std::size_t bytes() const { return inside.bytes() + after.memory(); }
};

class Vocabulary {
 public:
  Vocabulary(const Tokenizer& tokenizer, std::uint32_t rows);

  std::uint64_t id() const { return id_; }  ///< another one for each
  std::uint32_t rows() const { return rows_; }
  std::size_t words() const { return (std::size_t{rows_} + 31) / 32; }
  /// Tokens that are text: no control tokens, no other added ones.
  const TokenTrie& trie() const { return trie_; }
  /// Of a token that is text; empty for others.
  std::string_view bytes(TokenId id) const;
  std::uint32_t longest() const { return longest_; }
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  bool is_end(TokenId id) const;
  /// Every token that has a text, but for end tokens.
  const TokenSet& all_but_ends() const { return all_but_ends_; }
  /// Added tokens by name and by id.
  std::optional<TokenId> added(std::string_view name) const;
  const std::string* added_name(TokenId id) const;

  /// For a text of `machine` in the state `at`; made when it is first asked for.
  std::shared_ptr<const TextSummary> free_text(const TextMachine& machine, const TextState& at,
                                               WorkMeter& meter) const;
  /// Without remembering it.
  std::shared_ptr<const TextSummary> summarize(const TextMachine& machine, const TextState& at,
                                               WorkMeter& meter) const;

 private:
  std::uint64_t id_;
  std::uint32_t rows_;
  std::string blob_;
  std::vector<std::uint32_t> begins_;  ///< [rows + 1]
  std::uint32_t longest_ = 0;
  TokenTrie trie_;
  std::vector<TokenId> end_tokens_;
  TokenSet all_but_ends_;
  std::map<std::string, TokenId, std::less<>> added_;
  std::map<TokenId, std::string> added_names_;
  mutable RecentCache<TextSummary> free_texts_;
};

}  // namespace inferno::grammar
