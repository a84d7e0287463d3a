#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "grammar/automaton.hpp"
#include "grammar/recent_cache.hpp"
#include "grammar/token_set.hpp"
#include "grammar/vocabulary.hpp"

namespace inferno::grammar {

/// Which tokens may come at a position of one program, for one vocabulary. Remembers what was asked. Safe to
/// use from several threads, with an arena each.
class MaskMaker {
 public:
  /// Both must outlive this; the vocabulary is kept.
  MaskMaker(const Program& program, std::shared_ptr<const Vocabulary> vocabulary);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const std::vector<bool>& marker_is_token() const { return marker_is_token_; }

  /// Sets the bits of the tokens that may come at `position`, but for end tokens. `scratch` is used and given
  /// back. What several threads ask for at once is worked out by one of them.
  void add_allowed(std::span<const Frame* const> position, FrameArena& scratch,
                   std::span<std::uint32_t> words, WorkMeter& meter);

 private:
  class Claim;
  std::shared_ptr<const TokenSet> find_or_make(std::span<const Frame* const> position, FrameArena& scratch,
                                               WorkMeter& meter);
  std::shared_ptr<const TokenSet> make(std::span<const Frame* const> position, FrameArena& scratch,
                                       WorkMeter& meter);
  std::shared_ptr<const TextSummary> summary_of(const Frame& frame, const TextMachine& machine,
                                                WorkMeter& meter);
  static void walk(Automaton& automaton, const TokenTrie& trie, FrameList& frames, FrameArena& arena,
                   std::span<std::uint32_t> words);
  std::string key_of(std::span<const Frame* const> position, WorkMeter& meter) const;

  const Program& program_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<bool> marker_is_token_;
  std::uint32_t horizon_;  ///< no token has that many characters
  RecentCache<TokenSet> masks_;
  RecentCache<TextSummary> texts_;
  std::mutex claims_mutex_;
  std::set<std::string> claims_;  ///< keys of masks that are being made
};

}  // namespace inferno::grammar
