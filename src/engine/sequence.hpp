#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <inferno/request.hpp>
#include <inferno/sampling.hpp>

#include "engine/stop_matcher.hpp"
#include "step/executor.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {

/// When a sequence ends.
struct SequenceEnding {
  std::uint32_t max_tokens = 0;
  std::vector<std::string> stop = {};  ///< the text ends right before the first of these
  std::vector<TokenId> stop_ids = {};  ///< beside the model's end tokens
  bool ignore_end_tokens = false;
};

/// One request's tokens and what is certain of their text: the part of generating that does not depend on who
/// else is generating. Where its keys and values lie is a SequenceCache's business.
class Sequence {
 public:
  /// `prompt` is not empty. Throws UsageError for an empty stop string. `tokenizer` outlives the sequence.
  Sequence(const Tokenizer& tokenizer, std::vector<TokenId> prompt, SamplingSettings sampling,
           SequenceEnding ending);

  /// Prompt and generated.
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(tokens_.size()); }
  std::uint32_t prompt_size() const { return prompt_size_; }
  std::uint32_t generated() const { return size() - prompt_size_; }
  std::span<const TokenId> prompt_ids() const { return std::span(tokens_).first(prompt_size_); }
  std::span<const TokenId> generated_ids() const { return std::span(tokens_).subspan(prompt_size_); }
  std::uint32_t max_tokens() const { return ending_.max_tokens; }
  /// The most positions that it writes: the last token's are not needed.
  std::uint32_t most_positions() const;

  const SamplingSettings& sampling() const { return sampling_; }
  /// Whether choosing its tokens needs a sampling slot; without, plain greedy choice is all it asks for.
  bool needs_slot() const;
  /// What such a slot is set to now. The history is left out where it has no say.
  SlotState slot_state() const;
  /// Ids that end it, for an executor that chains steps.
  std::vector<TokenId> ending_ids() const;

  /// Takes in the next token. Returns the text that became certain: whole characters, never part of a stop
  /// string. Control tokens are markup, not text.
  std::string accept(TokenId id);
  /// Ends it from outside; the first reason counts.
  void finish(FinishReason reason);
  /// Text that was held back, once no more comes. Half a character becomes U+FFFD. Nothing after a stop
  /// string.
  std::string flush();

  /// Nullopt while it goes on. max_tokens end it too.
  std::optional<FinishReason> finish_reason() const { return finish_reason_; }
  /// The end token or stop id / the stop string that ended it.
  std::optional<TokenId> stop_id() const { return stop_id_; }
  const std::string* stop_string() const { return stops_.match(); }

 private:
  bool ends_with(TokenId id) const;

  const Tokenizer& tokenizer_;
  SamplingSettings sampling_;
  SequenceEnding ending_;
  std::uint32_t prompt_size_;
  std::vector<TokenId> tokens_;
  StreamDecoder decoder_;
  StopMatcher stops_;
  std::optional<FinishReason> finish_reason_;
  std::optional<TokenId> stop_id_;
};

}  // namespace inferno
