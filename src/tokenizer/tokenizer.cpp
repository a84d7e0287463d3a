#include "tokenizer/tokenizer.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <limits>
#include <unordered_map>
#include <utility>

#include <inferno/error.hpp>

#include "gguf/refusal.hpp"
#include "platform/log.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/bpe.hpp"
#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/pretokenizer.hpp"
#include "tokenizer/utf8.hpp"

namespace inferno {
namespace {

/// Positions in a word are 32-bit numbers.
constexpr std::size_t kLongestText = std::numeric_limits<std::int32_t>::max();

/// "unknown" is the name that a vocabulary gives to what it can't spell: as much markup as a control token.
bool is_control_type(TokenType type) {
  return type == TokenType::control || type == TokenType::unknown;
}
bool is_added_type(TokenType type) {
  return is_control_type(type) || type == TokenType::user_defined;
}

void check_id(const Vocabulary& vocabulary, const char* name, const std::optional<std::int32_t>& id) {
  if (!id || (*id >= 0 && std::cmp_less(*id, vocabulary.tokens.size()))) return;
  throw Error(fmt::format("the vocabulary's {} token: expected an id below {}, found {}", name,
                          vocabulary.tokens.size(), *id));
}

void check(const Vocabulary& vocabulary) {
  if (vocabulary.tokens.empty()) throw Error("the vocabulary: expected tokens, found none");
  if (vocabulary.types.size() != vocabulary.tokens.size()) {
    throw Error(fmt::format("the vocabulary: expected a type for each of {} tokens, found {}",
                            vocabulary.tokens.size(), vocabulary.types.size()));
  }
  check_id(vocabulary, "bos", vocabulary.bos);
  check_id(vocabulary, "eos", vocabulary.eos);
  check_id(vocabulary, "eot", vocabulary.eot);
  check_id(vocabulary, "pad", vocabulary.pad);
  if (!vocabulary.eos) throw Error("the vocabulary: expected an eos token, found none");
  if (vocabulary.add_bos && !vocabulary.bos) {
    throw Error("the vocabulary: expected a bos token, since one is to be added to prompts, found none");
  }
}

/// Files exist that give one string to several ids. All decode; the lowest id is what text becomes.
void warn_of_duplicates(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, std::size_t> first;
  first.reserve(vocabulary.tokens.size());
  std::size_t repeated = 0;
  std::string example;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] == TokenType::unused) continue;
    const auto [found, added] = first.try_emplace(vocabulary.tokens[id], id);
    if (!added && repeated++ == 0) example = fmt::format("{} repeats {}", id, found->second);
  }
  if (repeated > 0) {
    log().warn(
        "the vocabulary has {} tokens with the string of an earlier one ({}); text becomes the lowest id "
        "that is "
        "not an added token's, and an added token's text the lowest of those",
        repeated, example);
  }
}

std::vector<std::pair<std::string, TokenId>> added_tokens(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string, TokenId>> added;
  std::unordered_map<std::string_view, std::size_t> first;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    if (!is_added_type(vocabulary.types[id]) || text.empty()) continue;
    if (first.try_emplace(text, id).second) added.emplace_back(text, static_cast<TokenId>(id));
  }
  return added;
}

std::vector<TokenId> collect_end_tokens(const Vocabulary& vocabulary) {
  std::vector<TokenId> ends;
  for (const auto& id : {vocabulary.eos, vocabulary.eot}) {
    if (id) ends.push_back(*id);
  }
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    if (vocabulary.types[id] == TokenType::control && (text == "<|im_end|>" || text == "<|endoftext|>")) {
      ends.push_back(static_cast<TokenId>(id));
    }
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

/// What a token decodes to.
std::string token_bytes(const std::string& text, TokenType type) {
  if (type == TokenType::unused) return {};
  if (is_added_type(type)) return text;
  // A string that is not spelled in the alphabet stands for itself, as in the reference's decoder.
  auto bytes = from_alphabet(text);
  return bytes ? *std::move(bytes) : text;
}

}  // namespace

struct Tokenizer::State {
  Vocabulary vocabulary;
  Bpe bpe;
  Pretokenizer pretokenizer;
  AddedTokenMatcher added;
  std::string bytes;                     ///< of all tokens, one after the other
  std::vector<std::size_t> bytes_begin;  ///< by id, and one past the last
  std::vector<TokenId> ends;

  explicit State(Vocabulary checked)
      : vocabulary(std::move(checked)),
        bpe(vocabulary),
        added(added_tokens(vocabulary)),
        ends(collect_end_tokens(vocabulary)) {
    bytes_begin.reserve(vocabulary.tokens.size() + 1);
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      bytes_begin.push_back(bytes.size());
      bytes += token_bytes(vocabulary.tokens[id], vocabulary.types[id]);
    }
    bytes_begin.push_back(bytes.size());
  }

  /// Memory that the stretches of one text share.
  struct Work {
    Bpe::Scratch bpe;
    std::vector<std::size_t> word_ends;
    std::vector<TokenId> ids;
  };

  /// Text without added tokens, valid UTF-8.
  void encode_characters(std::string_view text, Work& work) const {
    std::string normalized;
    if (!certainly_nfc(text)) {
      normalized = nfc(text);
      text = normalized;
    }
    pretokenizer.split(text, work.word_ends);
    std::size_t begin = 0;
    for (const std::size_t end : work.word_ends) {
      bpe.encode(text.substr(begin, end - begin), work.bpe, work.ids);
      begin = end;
    }
  }

  /// Text without added tokens, any bytes.
  void encode_stretch(std::string_view text, Work& work) const {
    while (!text.empty()) {
      const std::size_t valid = utf8_valid_prefix(text);
      encode_characters(text.substr(0, valid), work);
      text.remove_prefix(valid);
      if (text.empty()) break;
      work.ids.push_back(bpe.byte_token(static_cast<std::uint8_t>(text.front())));
      text.remove_prefix(1);
    }
  }
};

Tokenizer::Tokenizer(Vocabulary vocabulary) {
  check(vocabulary);
  warn_of_duplicates(vocabulary);
  state_ = std::make_unique<const State>(std::move(vocabulary));
}

Tokenizer Tokenizer::from_gguf(const gguf::File& file) {
  Vocabulary vocabulary = vocabulary_from_gguf(file);
  try {
    return Tokenizer(std::move(vocabulary));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", gguf::name_for_messages(file.path()), error.what()));
  }
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, bool parse_control) const {
  const TextSpan span{.text = text, .trusted = parse_control};
  return encode(std::span(&span, 1));
}

std::vector<TokenId> Tokenizer::encode(std::span<const TextSpan> spans) const {
  std::size_t size = 0;
  for (const auto& span : spans) {
    if (span.text.size() > kLongestText - size) {
      throw Error(fmt::format("the text to tokenize: expected at most {} bytes, found more", kLongestText));
    }
    size += span.text.size();
  }
  std::string joined;
  if (spans.size() > 1) {
    joined.reserve(size);
    for (const auto& span : spans) joined += span.text;
  }
  const std::string_view text = spans.size() == 1 ? spans.front().text : joined;

  State::Work work;
  std::size_t begin = 0;  // of the stretch since the last added token
  const auto cut_out = [&](std::size_t trusted_begin, std::size_t trusted_end) {
    for (const auto& match : state_->added.find(text.substr(trusted_begin, trusted_end - trusted_begin))) {
      state_->encode_stretch(text.substr(begin, trusted_begin + match.begin - begin), work);
      work.ids.push_back(match.id);
      begin = trusted_begin + match.end;
    }
  };
  // Added tokens are looked for in each longest trusted stretch by itself: every byte of a match is
  // trusted then, and neighbours that are both trusted are one text.
  std::size_t trusted_begin = 0;
  std::size_t at = 0;
  for (const auto& span : spans) {
    if (!span.trusted && !span.text.empty()) {
      cut_out(trusted_begin, at);
      trusted_begin = at + span.text.size();
    }
    at += span.text.size();
  }
  cut_out(trusted_begin, at);
  state_->encode_stretch(text.substr(begin), work);
  return std::move(work.ids);
}

std::string_view Tokenizer::bytes(TokenId id) const {
  if (id < 0 || std::cmp_greater_equal(id, size())) return {};
  const auto at = static_cast<std::size_t>(id);
  const std::size_t begin = state_->bytes_begin[at];
  return std::string_view(state_->bytes).substr(begin, state_->bytes_begin[at + 1] - begin);
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) text += bytes(id);
  return text;
}

bool Tokenizer::is_control(TokenId id) const {
  return id >= 0 && std::cmp_less(id, size()) &&
         is_control_type(state_->vocabulary.types[static_cast<std::size_t>(id)]);
}

std::span<const TokenId> Tokenizer::end_tokens() const {
  return state_->ends;
}
std::optional<TokenId> Tokenizer::bos() const {
  return state_->vocabulary.bos;
}
bool Tokenizer::adds_bos() const {
  return state_->vocabulary.add_bos;
}
std::size_t Tokenizer::size() const {
  return state_->vocabulary.tokens.size();
}
const Vocabulary& Tokenizer::vocabulary() const {
  return state_->vocabulary;
}

}  // namespace inferno
