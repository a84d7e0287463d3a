// Schemas of any kind: a schema line, a NUL byte, bytes that choose what is written. Whatever happens ends in
// a refusal or in a text that is JSON and matches.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include <inferno/error.hpp>

#include "grammar/grammar.hpp"
#include "grammar/json_document.hpp"
#include "grammar/schema_validator.hpp"
#include "synth/byte_vocabulary.hpp"
#include "tokenizer/tokenizer.hpp"

namespace {

using namespace inferno;

void check(bool holds) {
  if (!holds) std::abort();
}

const Tokenizer& tokenizer() {
  static const Tokenizer kTokenizer(byte_vocabulary());
  return kTokenizer;
}

/// Takes the tokens that `choices` choose, at most so many; empty if the text does not end with them.
std::string write(const std::shared_ptr<const grammar::Grammar>& compiled, std::string_view choices) {
  static const auto kVocabulary =
      grammar::make_vocabulary(tokenizer(), static_cast<std::uint32_t>(tokenizer().size()));
  UnsharedTurn turn;
  const auto constraint = grammar::constrain(compiled, kVocabulary);
  std::string text;
  for (const char choice : choices) {
    std::vector<std::uint32_t> words((tokenizer().size() + 31) / 32);
    check(constraint->allow(words, turn));
    std::vector<TokenId> allowed;
    for (std::size_t i = 0; i < words.size() * 32; ++i) {
      if ((words[i / 32] >> (i % 32) & 1U) != 0) allowed.push_back(static_cast<TokenId>(i));
    }
    check(!allowed.empty());
    const auto id = allowed[static_cast<std::uint8_t>(choice) % allowed.size()];
    if (!tokenizer().is_control(id)) text += tokenizer().bytes(id);
    if (!constraint->accept(id, turn)) return text;
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto nul = std::min(bytes.find('\0'), bytes.size());
  const auto schema = bytes.substr(0, nul);
  const auto choices = bytes.substr(std::min(nul + 1, bytes.size()));
  std::shared_ptr<const grammar::Grammar> compiled;
  try {
    compiled = grammar::json_schema(schema);
  } catch (const grammar::SchemaError& error) {
    check(std::string_view(error.what()).find('\n') == std::string_view::npos);
    return 0;
  }
  const auto text = write(compiled, choices.substr(0, 256));
  if (text.empty()) return 0;
  check(nlohmann::json::accept(text));
  const auto document = grammar::parse_document(schema);
  // Keys that come twice are JSON, but no document.
  std::unique_ptr<const grammar::Json> value;
  try {
    value = grammar::parse_document(text);
  } catch (const grammar::SchemaError&) {
    return 0;
  }
  grammar::Budget budget(100'000'000);
  try {
    check(grammar::SchemaValidator(*document, budget).valid(*value, *document));
  } catch (const UsageError&) {
    // References that only this validator follows without end.
  } catch (const grammar::PatternError&) {
    // Too much work.
  }
  return 0;
}
