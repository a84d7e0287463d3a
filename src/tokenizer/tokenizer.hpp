#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno {

using TokenId = std::int32_t;

/// A stretch of a prompt and who wrote it. Added tokens ("<|im_end|>", "</think>") are recognized in trusted
/// stretches only: what a user typed stays text, character by character, whatever it spells.
struct TextSpan {
  std::string_view text;
  bool trusted = false;
};

/// Byte-level BPE as Qwen's reference tokenizer does it: added tokens are cut out first (leftmost, then
/// longest), the text between them is normalized to NFC, split by the Qwen2 pattern and merged by rank.
/// Immutable after construction; safe to use from several threads.
///
/// Text may be any bytes. A byte that is not part of valid UTF-8 becomes its own byte token and ends the
/// stretch that is normalized and split; so decoding gives it back.
class Tokenizer {
 public:
  /// Checks the vocabulary: special ids in range, an end token, well-formed merges. What can be lived
  /// with (merges that lead nowhere, tokens that repeat) is ignored with a warning. Throws Error.
  explicit Tokenizer(Vocabulary vocabulary);
  /// From `tokenizer.ggml.*` metadata. Throws Error naming the file and the key.
  static Tokenizer from_gguf(const gguf::File& file);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// One text; `parse_control` says whether added tokens in it are recognized (a raw completion) or stay
  /// text. No token is put before or after. Throws Error for a text of 2 GiB or more, or with a byte that
  /// the vocabulary has no token for.
  std::vector<TokenId> encode(std::string_view text, bool parse_control) const;
  /// A prompt put together from stretches. Text that is not trusted never becomes a control token, not even
  /// together with its neighbours: every byte of an added token must be trusted. Otherwise the ids are
  /// those of the joined text: stretches leave no seams.
  std::vector<TokenId> encode(std::span<const TextSpan> spans) const;

  /// The bytes of one token (for an added token its name). Ids without a string (padding between the
  /// tokenizer's list and the model's vocabulary, tokens marked unused, numbers out of range) give nothing.
  std::string_view bytes(TokenId id) const;
  /// All tokens' bytes joined; may end in half a character if the ids do.
  std::string decode(std::span<const TokenId> ids) const;
  /// Markup that text must never turn into. Added tokens that are not control ("<think>") are printed.
  bool is_control(TokenId id) const;
  /// Tokens that end a generation: eos, eot and the control tokens <|im_end|> and <|endoftext|>, ascending.
  std::span<const TokenId> end_tokens() const;
  std::optional<TokenId> bos() const;
  /// Whether the file asks for bos before every prompt (false for Qwen3). `encode` leaves that to the caller.
  bool adds_bos() const;
  /// Ids below this have a string.
  std::size_t size() const;
  const Vocabulary& vocabulary() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

/// Turns a stream of token bytes into text that is valid UTF-8 at every moment: bytes of an unfinished
/// character are held back; bytes that can never become one are replaced by U+FFFD, one for each longest
/// part that could have begun a character. What comes out does not depend on how the bytes were cut.
class StreamDecoder {
 public:
  /// Takes the bytes of the next token; returns the text that is certain now, possibly empty.
  std::string push(std::string_view bytes);
  /// Ends the stream: what was held back becomes U+FFFD. The decoder can be used again.
  std::string finish();

 private:
  std::string pending_;  ///< at most 3 bytes
};

/// The whole of `bytes` as a StreamDecoder gives it.
std::string to_valid_utf8(std::string_view bytes);

}  // namespace inferno
