#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "chat/prompt.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::api {

/// The tokens around a model's thoughts; none if its vocabulary has no such tokens.
struct ThinkTags {
  explicit ThinkTags(const Tokenizer& tokenizer);
  std::optional<TokenId> begin, end;
};

/// The tokens of all tags of an answer: around thoughts and around calls.
class TagTokens {
 public:
  explicit TagTokens(const Tokenizer& tokenizer);
  /// The vocabulary has all of them, so that letters that spell one are told from it.
  bool complete() const { return complete_; }
  bool contains(TokenId id) const { return std::find(ids_.begin(), ids_.end(), id) != ids_.end(); }

 private:
  std::vector<TokenId> ids_;
  bool complete_ = true;
};

/// What a chat prompt says of the thoughts that come first.
enum class Thoughts : std::uint8_t {
  none,     ///< the model cannot think, or the prompt ends in an empty block: think no more
  allowed,  ///< it may begin with <think>
  begun     ///< the prompt ends in <think>
};
Thoughts thoughts_after(const Prompt& prompt, const ThinkTags& tags);

/// Counts the tokens of an answer's thoughts, their tags included.
class ThoughtCounter {
 public:
  ThoughtCounter(const Tokenizer& tokenizer, const ThinkTags& tags, bool begun);
  void push(TokenId id);
  std::uint32_t count() const { return count_; }

 private:
  enum class State : std::uint8_t { before, within, after };

  const Tokenizer& tokenizer_;
  const ThinkTags& tags_;
  State state_;
  std::uint32_t count_ = 0;
};

}  // namespace inferno::api
