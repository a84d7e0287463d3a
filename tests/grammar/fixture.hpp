#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/grammar.hpp"
#include "tokenizer/fixtures.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::test {

/// All bytes, pieces that often stand in JSON, <|im_end|>, <think> and <tool_call> with their ends.
const Tokenizer& json_tokenizer();
std::shared_ptr<const grammar::Vocabulary> json_vocabulary();
/// The id of a token of that tokenizer, by its text.
TokenId token_id(std::string_view text);

/// For constraints that nobody shares.
ConstraintTurn& unshared_turn();
/// The bits of what may come.
std::vector<std::uint32_t> allowed_by(TokenConstraint& constraint, std::size_t rows);
bool has_bit(const std::vector<std::uint32_t>& words, TokenId id);

/// Whether the whole text, byte by byte, is allowed and may end there.
bool accepts(const std::shared_ptr<const grammar::Grammar>& grammar, std::string_view text);
/// How many bytes of the text are allowed.
std::size_t allowed_prefix(const std::shared_ptr<const grammar::Grammar>& grammar, std::string_view text);

struct SchemaCase {
  std::string schema;
  std::vector<std::string> taken;
  std::vector<std::string> refused;
};
/// Expects that each schema is understood, allows what is to be taken, and nothing of what is to be refused.
void check_schemas(const std::vector<SchemaCase>& cases);

struct Walk {
  std::string text;
  bool complete = false;
};
/// Takes allowed tokens by chance, until the end or until so many. What closes something is taken more often
/// than by chance.
Walk random_walk(const std::shared_ptr<const grammar::Grammar>& grammar, const Tokenizer& tokenizer,
                 const std::shared_ptr<const grammar::Vocabulary>& vocabulary, std::size_t rows, Dice& dice,
                 std::size_t most_tokens);

/// The path of the SchemaError that a schema gets, and its message behind a colon; "" if it gets none.
std::string refusal_of(std::string_view schema);

}  // namespace inferno::test
