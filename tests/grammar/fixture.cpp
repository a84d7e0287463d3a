#include "grammar/fixture.hpp"

#include <bit>
#include <gtest/gtest.h>
#include <utility>

#include "tokenizer/byte_alphabet.hpp"

namespace inferno::test {
namespace {

Vocabulary make_json_tokens() {
  // Spelled in plain text, each from two that are there already.
  const std::vector<std::pair<std::string, std::string>> merges = {
      {"{", "\""},    {"\"", ":"},  {"\":", " "},    {"\"", ","},      {"\",", "\""},    {" ", "\""},
      {"\"", "}"},    {"}", "}"},   {"]", "}"},      {"[", "["},       {",", " "},       {", ", "\""},
      {"\n", " "},    {"\n ", " "}, {"a", "b"},      {"ab", "\""},     {"ab\"", ":"},    {"1", "2"},
      {"12", ","},    {"-", "1"},   {"t", "r"},      {"tr", "u"},      {"tru", "e"},     {"n", "u"},
      {"\\", "u"},    {"\\u", "d"}, {"0", "."},      {"\xC3", "\xA9"}, {"\xE2", "\x82"}, {"b", "\xC3"},
      {"\xA9", "\""}, {"{\"", "a"}, {"{\"a", "\":"}, {"}", "\n"},      {"\"", "\n"},     {"\\", "\""},
      {"\\\"", "\""}};
  const auto spelled = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += alphabet_character(static_cast<std::uint8_t>(c));
    return out;
  };
  std::vector<std::pair<std::string, std::string>> in_alphabet;
  in_alphabet.reserve(merges.size());
  for (const auto& [left, right] : merges) in_alphabet.emplace_back(spelled(left), spelled(right));
  return small_vocabulary(in_alphabet, {{"<|im_end|>", TokenType::control},
                                        {"<think>", TokenType::user_defined},
                                        {"</think>", TokenType::user_defined},
                                        {"<tool_call>", TokenType::user_defined},
                                        {"</tool_call>", TokenType::user_defined}});
}

bool closes_something(std::string_view bytes) {
  return !bytes.empty() && bytes.find_first_not_of("\"}],:0123456789") == std::string_view::npos;
}

}  // namespace

const Tokenizer& json_tokenizer() {
  static const Tokenizer kTokenizer(make_json_tokens());
  return kTokenizer;
}

std::shared_ptr<const grammar::Vocabulary> json_vocabulary() {
  static const auto kVocabulary =
      grammar::make_vocabulary(json_tokenizer(), static_cast<std::uint32_t>(json_tokenizer().size()));
  return kVocabulary;
}

TokenId token_id(std::string_view text) {
  for (std::size_t id = 0; id < json_tokenizer().size(); ++id) {
    if (json_tokenizer().bytes(static_cast<TokenId>(id)) == text) return static_cast<TokenId>(id);
  }
  ADD_FAILURE() << "no token " << text;
  return -1;
}

ConstraintTurn& unshared_turn() {
  static UnsharedTurn turn;
  return turn;
}

std::vector<std::uint32_t> allowed_by(TokenConstraint& constraint, std::size_t rows) {
  std::vector<std::uint32_t> words((rows + 31) / 32);
  EXPECT_TRUE(constraint.allow(words, unshared_turn()));
  return words;
}

bool has_bit(const std::vector<std::uint32_t>& words, TokenId id) {
  const auto index = static_cast<std::size_t>(id);
  return (words[index / 32] >> (index % 32) & 1U) != 0;
}

std::size_t allowed_prefix(const std::shared_ptr<const grammar::Grammar>& grammar, std::string_view text) {
  const auto constraint = grammar::constrain(grammar, json_vocabulary());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto id = static_cast<TokenId>(static_cast<std::uint8_t>(text[i]));
    if (!has_bit(allowed_by(*constraint, json_tokenizer().size()), id)) return i;
    if (!constraint->accept(id, unshared_turn())) return i + 1;
  }
  return text.size();
}

bool accepts(const std::shared_ptr<const grammar::Grammar>& grammar, std::string_view text) {
  const auto constraint = grammar::constrain(grammar, json_vocabulary());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto id = static_cast<TokenId>(static_cast<std::uint8_t>(text[i]));
    if (!has_bit(allowed_by(*constraint, json_tokenizer().size()), id)) return false;
    if (!constraint->accept(id, unshared_turn())) return i + 1 == text.size();
  }
  return has_bit(allowed_by(*constraint, json_tokenizer().size()), json_tokenizer().end_tokens().front());
}

void check_schemas(const std::vector<SchemaCase>& cases) {
  for (const auto& one : cases) {
    std::shared_ptr<const grammar::Grammar> compiled;
    try {
      compiled = grammar::json_schema(one.schema);
    } catch (const grammar::SchemaError& error) {
      ADD_FAILURE() << one.schema << ": " << error.what();
      continue;
    }
    for (const auto& text : one.taken) EXPECT_TRUE(accepts(compiled, text)) << one.schema << " <- " << text;
    for (const auto& text : one.refused)
      EXPECT_FALSE(accepts(compiled, text)) << one.schema << " <- " << text;
  }
}

Walk random_walk(const std::shared_ptr<const grammar::Grammar>& grammar, const Tokenizer& tokenizer,
                 const std::shared_ptr<const grammar::Vocabulary>& vocabulary, std::size_t rows, Dice& dice,
                 std::size_t most_tokens) {
  const auto constraint = grammar::constrain(grammar, vocabulary);
  Walk walk;
  for (std::size_t i = 0; i < most_tokens; ++i) {
    const auto words = allowed_by(*constraint, rows);
    std::vector<TokenId> choices;
    std::vector<TokenId> closing;
    for (std::size_t word = 0; word < words.size(); ++word) {
      for (auto bits = words[word]; bits != 0; bits &= bits - 1) {
        const auto id = static_cast<TokenId>(word * 32 + static_cast<std::size_t>(std::countr_zero(bits)));
        choices.push_back(id);
        if (closes_something(tokenizer.bytes(id))) closing.push_back(id);
      }
    }
    const auto& from = !closing.empty() && dice(3) == 0 ? closing : choices;
    const auto id = from[dice(from.size())];
    if (!tokenizer.is_control(id)) walk.text += tokenizer.bytes(id);
    if (!constraint->accept(id, unshared_turn())) {
      walk.complete = true;
      return walk;
    }
  }
  return walk;
}

std::string refusal_of(std::string_view schema) {
  try {
    grammar::json_schema(schema);
  } catch (const grammar::SchemaError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    EXPECT_LT(std::string_view(error.what()).size(), 600U) << error.what();
    return error.path() + ": " + error.message();
  }
  return {};
}

}  // namespace inferno::test
