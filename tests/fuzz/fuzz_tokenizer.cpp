// Any bytes, cut into trusted and untrusted stretches anywhere, must be encoded without an error; what comes
// back is the normal form of the text, markup is where trusted text spells it in full and nowhere else, and a
// stream of the tokens is valid UTF-8 at every moment.
//
// Input: a byte n, then n % 16 bytes that each give a stretch (bit 0: trusted, the rest: its length), then
// the text; what the stretches leave over is one more, trusted if n has bit 7.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/reader.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/pretokenizer.hpp"
#include "tokenizer/report.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/utf8.hpp"

namespace {

using inferno::TextSpan;
using inferno::TokenId;
using inferno::TokenType;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "violated: %s\n", what);
  std::abort();
}

/// The shipped model's vocabulary, with added tokens that are not control and one that begins another.
const inferno::Tokenizer& tokenizer() {
  static const inferno::Tokenizer made = [] {
    const auto file = inferno::gguf::File::open(std::filesystem::path(INFERNO_MODELS) / "tale-12m-q8_0.gguf");
    auto vocabulary = inferno::vocabulary_from_gguf(file);
    for (const auto* token : {"<think>", "</think>", "<|im_", "\xC3\xA9\xCC\x81"}) {
      vocabulary.tokens.emplace_back(token);
      vocabulary.types.push_back(TokenType::user_defined);
    }
    return inferno::Tokenizer(std::move(vocabulary));
  }();
  return made;
}

bool is_added(TokenId id) {
  const auto type = tokenizer().vocabulary().types.at(static_cast<std::size_t>(id));
  return type == TokenType::control || type == TokenType::user_defined;
}

/// The added tokens, for trying them one after the other.
const std::vector<TokenId>& added_ids() {
  static const std::vector<TokenId> ids = [] {
    std::vector<TokenId> found;
    for (std::size_t id = 0; id < tokenizer().size(); ++id) {
      if (is_added(static_cast<TokenId>(id))) found.push_back(static_cast<TokenId>(id));
    }
    return found;
  }();
  return ids;
}

/// The added tokens that a text must give: at each byte the longest whose bytes are all trusted.
std::vector<TokenId> expected_added(std::string_view text, const std::vector<bool>& trusted) {
  std::vector<TokenId> expected;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t longest = 0;
    TokenId best = 0;
    for (const TokenId id : added_ids()) {
      const auto token = tokenizer().bytes(id);
      if (token.size() <= longest || !text.substr(at).starts_with(token)) continue;
      bool all = true;
      for (std::size_t i = 0; i < token.size(); ++i) all = all && trusted[at + i];
      if (!all) continue;
      longest = token.size();
      best = id;
    }
    if (longest > 0) expected.push_back(best);
    at += longest > 0 ? longest : 1;
  }
  return expected;
}

std::vector<TokenId> added_among(const std::vector<TokenId>& ids) {
  std::vector<TokenId> added;
  for (const TokenId id : ids) {
    if (is_added(id)) added.push_back(id);
  }
  return added;
}

/// NFC of the stretches that are valid UTF-8; other bytes as they are.
std::string normal_form(std::string_view text) {
  std::string normal;
  while (!text.empty()) {
    const auto valid = inferno::utf8_valid_prefix(text);
    normal += inferno::nfc(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    normal += text.front();
    text.remove_prefix(1);
  }
  return normal;
}

void check_stream(const std::vector<TokenId>& ids) {
  inferno::StreamDecoder decoder;
  std::string joined;
  for (const TokenId id : ids) {
    const std::string text = decoder.push(tokenizer().bytes(id));
    require(inferno::utf8_valid_prefix(text) == text.size(), "streamed text is valid UTF-8");
    joined += text;
  }
  joined += decoder.finish();
  require(joined == inferno::to_valid_utf8(tokenizer().decode(ids)), "the stream joined is the whole");
}

void check_words(std::string_view text) {
  static const inferno::Pretokenizer machine;
  static const inferno::Pretokenizer interpreter({.jit = false});
  text = text.substr(0, inferno::utf8_valid_prefix(text));
  std::vector<std::size_t> ends;
  std::vector<std::size_t> same;
  machine.split(text, ends);
  interpreter.split(text, same);
  require(ends == same, "machine code and interpreter cut alike");
  require(text.empty() ? ends.empty() : ends.back() == text.size(), "words cover the text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t stretches = data[0] % 16U;
  if (size < 1 + stretches) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1 + stretches, size - 1 - stretches);

  std::vector<TextSpan> spans;
  std::vector<bool> trusted;
  std::string_view rest = text;
  const auto take = [&](std::size_t length, bool is_trusted) {
    const auto piece = rest.substr(0, length);
    spans.push_back({.text = piece, .trusted = is_trusted});
    trusted.insert(trusted.end(), piece.size(), is_trusted);
    rest.remove_prefix(piece.size());
  };
  for (std::size_t i = 1; i <= stretches; ++i) take(data[i] >> 1U, (data[i] & 1U) != 0);
  take(rest.size(), (data[0] & 0x80U) != 0);

  const auto ids = tokenizer().encode(spans);
  const auto expected = expected_added(text, trusted);
  require(added_among(ids) == expected, "markup is what trusted text spells in full");
  require(normal_form(tokenizer().decode(ids)) == normal_form(text), "decoding gives the text back");
  check_stream(ids);
  check_words(text);
  require(!inferno::tokens_as_json(tokenizer(), ids).empty(), "a report");

  const auto plain = tokenizer().encode(text, false);
  require(added_among(plain).empty(), "untrusted text is no markup");
  require(tokenizer().decode(plain) == normal_form(text), "untrusted text comes back normalized");
  if (expected.empty()) require(ids == plain, "stretches leave no seams");
  for (auto& span : spans) span.trusted = true;
  require(tokenizer().encode(spans) == tokenizer().encode(text, true), "trusted stretches leave no seams");
  return 0;
}
