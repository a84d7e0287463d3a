// Whole requests: ends, thoughts, tool calls, patterns; what a constraint says and takes.

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include <inferno/error.hpp>

#include "grammar/fixture.hpp"
#include "grammar/work_meter.hpp"

namespace inferno {
namespace {

using grammar::Thinking;
using test::allowed_by;
using test::has_bit;
using test::json_tokenizer;
using test::json_vocabulary;
using test::token_id;

/// A constraint that is fed with text and tokens.
class Session {
 public:
  explicit Session(std::shared_ptr<const grammar::Grammar> compiled, Thinking thinking = Thinking::none)
      : Session(grammar::constrain(std::move(compiled), json_vocabulary(), {.thinking = thinking})) {}
  explicit Session(std::shared_ptr<TokenConstraint> constraint) : constraint_(std::move(constraint)) {}

  bool allows(std::string_view token) { return allows(token_id(token)); }
  bool allows(TokenId id) { return has_bit(allowed_by(*constraint_, json_tokenizer().size()), id); }
  bool allows_end() { return allows("<|im_end|>"); }
  /// How many tokens may come.
  std::size_t choices() {
    const auto words = allowed_by(*constraint_, json_tokenizer().size());
    std::size_t count = 0;
    for (std::size_t id = 0; id < json_tokenizer().size(); ++id)
      count += has_bit(words, static_cast<TokenId>(id)) ? 1 : 0;
    return count;
  }
  /// Returns what `accept` did; the token must be allowed.
  bool take(std::string_view token) {
    const auto id = token_id(token);
    EXPECT_TRUE(allows(id)) << token;
    return constraint_->accept(id, test::unshared_turn());
  }
  /// Byte by byte; true if the text is not over.
  bool type(std::string_view text) {
    bool more = true;
    for (const char byte : text) {
      const auto id = static_cast<TokenId>(static_cast<std::uint8_t>(byte));
      EXPECT_TRUE(more && allows(id)) << text << " at " << byte;
      more = constraint_->accept(id, test::unshared_turn());
    }
    return more;
  }
  TokenConstraint& constraint() { return *constraint_; }

 private:
  std::shared_ptr<TokenConstraint> constraint_;
};

std::shared_ptr<const grammar::Grammar> two_keys() {
  return grammar::json_schema(
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a","b"]})");
}

TEST(Constraint, EndsWithTheClosingBrace) {
  Session session(two_keys());
  EXPECT_FALSE(session.allows_end());
  EXPECT_TRUE(session.type(R"({"a": 12, "b": "x")"));
  EXPECT_FALSE(session.allows_end());
  EXPECT_FALSE(session.type("}"));
  EXPECT_TRUE(session.allows_end());
  EXPECT_EQ(session.choices(), 1U);
  EXPECT_FALSE(session.take("<|im_end|>"));
}

TEST(Constraint, MayGoOnWhereItMayEnd) {
  Session session(grammar::json_schema(R"({"type":"integer","maximum":99})"));
  EXPECT_TRUE(session.type("4"));
  EXPECT_TRUE(session.allows_end());
  EXPECT_TRUE(session.allows("2"));
  EXPECT_FALSE(session.type("2"));  // nothing but the end could follow
}

TEST(Constraint, TokensOfSeveralParts) {
  Session session(grammar::json_schema(R"({"type":"object","properties":{"ab":{"const":true}}})"));
  EXPECT_TRUE(session.allows("{\""));
  EXPECT_FALSE(session.allows("{\"a\":"));
  EXPECT_TRUE(session.take("{\""));
  EXPECT_TRUE(session.allows("ab\":"));
  EXPECT_TRUE(session.allows("ab\""));
  EXPECT_TRUE(session.take("ab\":"));
  EXPECT_TRUE(session.take("true"));
  EXPECT_FALSE(session.allows("}}"));
  EXPECT_FALSE(session.take("}"));
}

TEST(Constraint, HalfCharactersAreFollowedByTheirOtherHalf) {
  Session session(grammar::json_schema(R"({"type":"string","maxLength":1})"));
  session.type("\"");
  EXPECT_TRUE(session.take("\xE2\x82"));
  EXPECT_FALSE(session.allows("\""));
  EXPECT_FALSE(session.allows("a"));
  EXPECT_TRUE(session.allows(0xAC));
  EXPECT_TRUE(session.allows("\xA9\""));  // U+20A9
  EXPECT_TRUE(session.type("\xAC"));
  EXPECT_FALSE(session.allows("a"));
  EXPECT_FALSE(session.type("\""));
}

TEST(Constraint, AddedTokensNeverStandInText) {
  Session session(grammar::json_schema(R"({"type":"string"})"));
  session.type("\"<think>");
  for (const auto* name : {"<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>"})
    EXPECT_FALSE(session.allows(name)) << name;
}

TEST(Constraint, WhatDoesNotGoOnIsAnError) {
  Session session(two_keys());
  EXPECT_THROW(session.constraint().accept(token_id("}"), test::unshared_turn()), Error);
  EXPECT_THROW(session.constraint().accept(token_id("<|im_end|>"), test::unshared_turn()), Error);
  EXPECT_THROW(session.constraint().accept(token_id("<think>"), test::unshared_turn()), Error);
  EXPECT_THROW(session.constraint().accept(-1, test::unshared_turn()), Error);
  EXPECT_THROW(session.constraint().accept(1'000'000, test::unshared_turn()), Error);
  std::vector<std::uint32_t> wrong(3);
  EXPECT_THROW(session.constraint().allow(wrong, test::unshared_turn()), UsageError);
}

TEST(Constraint, ThoughtsAreFreeAndBindNothing) {
  Session session(two_keys(), Thinking::allowed);
  EXPECT_TRUE(session.allows("<think>"));
  EXPECT_TRUE(session.allows("{"));
  EXPECT_FALSE(session.allows("a"));
  EXPECT_TRUE(session.take("<think>"));
  EXPECT_TRUE(session.type("\nanything } at all\n"));
  EXPECT_TRUE(session.take("<tool_call>"));
  EXPECT_FALSE(session.allows_end());  // there is no answer yet
  EXPECT_TRUE(session.take("</think>"));
  EXPECT_TRUE(session.allows("{"));
  EXPECT_FALSE(session.allows("a"));
  EXPECT_FALSE(session.allows("<think>"));
  EXPECT_FALSE(session.allows_end());
  EXPECT_TRUE(session.type("\n\n"));
  EXPECT_FALSE(session.allows("\n"));
  EXPECT_TRUE(session.type(R"({"a":1,"b":"")"));
  EXPECT_FALSE(session.type("}"));
}

/// A model may have more rows than its tokenizer has tokens.
TEST(Constraint, IdsWithoutTextNeverCome) {
  const auto rows = json_tokenizer().size() + 40;
  const auto vocabulary = grammar::make_vocabulary(json_tokenizer(), static_cast<std::uint32_t>(rows));
  for (const auto thinking : {Thinking::none, Thinking::begun}) {
    const auto constraint = grammar::constrain(two_keys(), vocabulary, {.thinking = thinking});
    const auto words = allowed_by(*constraint, rows);
    for (auto id = json_tokenizer().size(); id < rows; ++id)
      EXPECT_FALSE(has_bit(words, static_cast<TokenId>(id)));
  }
}

TEST(Constraint, AnswersWithoutThoughtsAreBoundAtOnce) {
  Session session(two_keys(), Thinking::allowed);
  EXPECT_TRUE(session.type("{"));
  EXPECT_FALSE(session.allows("<think>"));
}

TEST(Constraint, ThoughtsThatThePromptBegan) {
  Session session(two_keys(), Thinking::begun);
  EXPECT_TRUE(session.type("hm"));
  EXPECT_TRUE(session.take("</think>"));
  EXPECT_FALSE(session.type("\n{\"a\":1,\"b\":\"\"}"));
}

const std::vector<grammar::ToolSpec>& tools() {
  static const std::vector<grammar::ToolSpec> kTools = {
      {"f", R"({"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]})"},
      {"get weather", R"({"properties":{"city":{"type":"string"}}})"},
      {"now", ""}};
  return kTools;
}

TEST(Constraint, OneToolCall) {
  Session session(grammar::tool_calls(tools(), false));
  EXPECT_EQ(session.choices(), 1U);
  EXPECT_TRUE(session.take("<tool_call>"));
  EXPECT_FALSE(session.allows("<tool_call>"));
  EXPECT_TRUE(session.type("\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n"));
  EXPECT_EQ(session.choices(), 1U);
  EXPECT_FALSE(session.take("</tool_call>"));
  EXPECT_TRUE(session.allows_end());
}

TEST(Constraint, ToolCallsInParallel) {
  Session session(grammar::tool_calls(tools(), true));
  EXPECT_TRUE(session.take("<tool_call>"));
  EXPECT_TRUE(session.type("\n{\"name\": \"now\", \"arguments\": {}}\n"));
  EXPECT_TRUE(session.take("</tool_call>"));
  EXPECT_TRUE(session.allows_end());
  EXPECT_TRUE(session.type("\n"));
  EXPECT_FALSE(session.allows_end());
  EXPECT_TRUE(session.take("<tool_call>"));
  EXPECT_TRUE(session.type("\n{\"name\": \"get weather\", \"arguments\": {\"city\": \"Ulm\"}}\n"));
  EXPECT_TRUE(session.take("</tool_call>"));
  EXPECT_FALSE(session.take("<|im_end|>"));
}

TEST(Constraint, CallsOrJson) {
  for (const bool calls : {false, true}) {
    Session session(grammar::tool_calls_or_json(tools(), false, R"({"type":"integer"})"));
    EXPECT_TRUE(session.allows("<tool_call>"));
    EXPECT_TRUE(session.allows("7"));
    EXPECT_FALSE(session.allows("{"));
    if (calls) {
      EXPECT_TRUE(session.take("<tool_call>"));
      EXPECT_FALSE(session.allows_end());
      EXPECT_TRUE(session.type("\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n"));
      EXPECT_FALSE(session.take("</tool_call>"));
    } else {
      EXPECT_TRUE(session.type("7"));
      EXPECT_FALSE(session.allows("<tool_call>"));
    }
    EXPECT_TRUE(session.allows_end());
  }
  Session any(grammar::tool_calls_or_json(tools(), true, ""));
  EXPECT_TRUE(any.allows("<tool_call>"));
  EXPECT_FALSE(any.type("{}"));
  const auto document_of = [](const std::vector<grammar::ToolSpec>& specs, std::string_view schema) {
    try {
      grammar::tool_calls_or_json(specs, true, schema);
    } catch (const grammar::SchemaError& error) {
      return error.document();
    }
    return std::size_t{99};
  };
  EXPECT_EQ(document_of(tools(), R"({"type":"strnig"})"), 3U);
  EXPECT_EQ(document_of({{"f", ""}, {"g", R"({"type":"strnig"})"}}, ""), 1U);
}

TEST(Constraint, CallsAmongOtherText) {
  const auto among_text = [](bool single, Thinking thinking) {
    return Session(grammar::constrain_calls(grammar::tool_calls(tools(), false), json_vocabulary(), single,
                                            {.thinking = thinking}));
  };
  const auto is_free = [](Session& session) {
    std::vector<std::uint32_t> words((json_tokenizer().size() + 31) / 32);
    return !session.constraint().allow(words, test::unshared_turn());
  };
  const auto accept = [](Session& session, std::string_view token) {
    return session.constraint().accept(token_id(token), test::unshared_turn());
  };
  for (const bool single : {false, true}) {
    auto session = among_text(single, Thinking::allowed);
    for (const auto* token : {"<think>", "<tool_call>", "x", "</tool_call>", "</think>", "o", "k"}) {
      EXPECT_TRUE(is_free(session));
      EXPECT_TRUE(accept(session, token)) << token;
    }
    EXPECT_TRUE(is_free(session));
    EXPECT_TRUE(accept(session, "<tool_call>"));
    EXPECT_FALSE(is_free(session));
    EXPECT_FALSE(session.allows_end());
    EXPECT_FALSE(session.allows("</tool_call>"));
    EXPECT_TRUE(session.type("\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n"));
    EXPECT_EQ(session.take("</tool_call>"), !single);
    EXPECT_TRUE(is_free(session));
    if (single) continue;
    EXPECT_TRUE(accept(session, "<tool_call>"));
    EXPECT_FALSE(is_free(session));
  }
  auto thinking = among_text(false, Thinking::begun);
  EXPECT_TRUE(accept(thinking, "<tool_call>"));
  EXPECT_TRUE(is_free(thinking));

  const Tokenizer plain(test::small_vocabulary({}, {{"<|end|>", TokenType::control}}));
  const auto vocabulary = grammar::make_vocabulary(plain, static_cast<std::uint32_t>(plain.size()));
  EXPECT_THROW(grammar::constrain_calls(grammar::tool_calls(tools(), false), vocabulary, false), UsageError);
}

TEST(Constraint, ArgumentsBelongToTheTool) {
  Session session(grammar::tool_calls(tools(), false));
  session.take("<tool_call>");
  session.type("\n{\"name\":\"now\",\"arguments\":{");
  EXPECT_FALSE(session.allows("\""));
  Session other(grammar::tool_calls(tools(), false));
  other.take("<tool_call>");
  other.type("\n{\"name\":\"");
  EXPECT_FALSE(other.allows("x"));
}

/// Without added tokens of these names their text is asked for.
TEST(Constraint, ToolCallsOfAVocabularyWithoutTheirTokens) {
  const Tokenizer plain(test::small_vocabulary({}, {{"<|end|>", TokenType::control}}));
  const auto vocabulary = grammar::make_vocabulary(plain, static_cast<std::uint32_t>(plain.size()));
  const auto constraint =
      grammar::constrain(grammar::tool_calls(tools(), false), vocabulary, {.thinking = Thinking::allowed});
  const std::string text = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  bool more = true;
  for (const char byte : text) {
    const auto id = static_cast<TokenId>(static_cast<std::uint8_t>(byte));
    ASSERT_TRUE(more && has_bit(allowed_by(*constraint, plain.size()), id)) << byte;
    more = constraint->accept(id, test::unshared_turn());
  }
  EXPECT_FALSE(more);
  EXPECT_THROW(grammar::constrain(two_keys(), vocabulary, {.thinking = Thinking::begun}), UsageError);
}

TEST(Constraint, PatternsOfWholeTexts) {
  const auto compiled = grammar::regex("(ab|c)+\xC3\xA9?");
  for (const auto* text : {"ab", "c", "abcab", "c\xC3\xA9"})
    EXPECT_TRUE(test::accepts(compiled, text)) << text;
  for (const auto* text : {"", "a", "abx", "\xC3\xA9", "c\xC3"})
    EXPECT_FALSE(test::accepts(compiled, text)) << text;
  EXPECT_TRUE(test::accepts(grammar::regex("a*"), ""));
  EXPECT_TRUE(test::accepts(grammar::regex("\"\\n\""), "\"\n\""));
  EXPECT_THROW(grammar::regex("(?=a)"), grammar::SchemaError);
}

/// Goes on for so many looks, then leaves.
class LeavingTurn : public ConstraintTurn {
 public:
  explicit LeavingTurn(int looks) : looks_(looks) {}
  void go_on() override {
    if (looks_-- == 0) throw TurnOver();
  }
  void give_way() override {}

 private:
  int looks_;
};

/// Repeats a call with more and more time until it is done; how often it was left.
template <typename Call>
int repeated(const Call& call) {
  for (int looks = 0;; ++looks) {
    LeavingTurn turn(looks);
    try {
      call(turn);
      return looks;
    } catch (const TurnOver&) {
    }
  }
}

TEST(Constraint, WhatIsLeftInTheMiddleIsAsItWasBefore) {
  const auto schema = [](const std::string& title) {
    std::string out = R"({"title":")" + title + R"(","anyOf":[)";
    for (int i = 0; i < 60; ++i) {
      if (i > 0) out += ',';
      out += R"({"properties":{"a":{"type":"array","items":{"minLength":)" + std::to_string(i % 7);
      out += R"(},"minItems":)" + std::to_string(i % 3) + R"(}},"required":["a"]})";
    }
    return out + "]}";
  };
  // Two grammars: one would remember what the other has found.
  const auto left = grammar::constrain(grammar::json_schema(schema("left")), json_vocabulary(),
                                       {.thinking = Thinking::begun});
  const auto whole = grammar::constrain(grammar::json_schema(schema("whole")), json_vocabulary(),
                                        {.thinking = Thinking::begun});
  int leavings = 0;
  const auto compare = [&] {
    std::vector<std::uint32_t> words;
    leavings += repeated([&](ConstraintTurn& turn) {
      words.assign((json_tokenizer().size() + 31) / 32, 0);
      EXPECT_TRUE(left->allow(words, turn));
    });
    EXPECT_EQ(words, allowed_by(*whole, json_tokenizer().size()));
  };
  std::vector<TokenId> ids = {token_id("</think>")};
  for (const char byte : std::string(R"({"a":["abcdef","ab"]})"))
    ids.push_back(static_cast<TokenId>(static_cast<std::uint8_t>(byte)));
  for (const auto id : ids) {
    compare();
    bool goes_on = false;
    leavings += repeated([&](ConstraintTurn& turn) { goes_on = left->accept(id, turn); });
    EXPECT_EQ(goes_on, whole->accept(id, test::unshared_turn()));
  }
  EXPECT_GT(leavings, 100);
}

TEST(Constraint, TooMuchWorkIsRefused) {
  // Not found when it is compiled, since there are other ways to go.
  std::string product;
  for (int i = 0; i < 100; ++i) {
    if (i > 0) product += ',';
    product += R"({"properties":{"a":{"anyOf":[)";
    for (int j = 0; j < 50; ++j) {
      if (j > 0) product += ',';
      product += R"({"properties":{"b":{"maxLength":)" + std::to_string(i * 50 + j);
      product += R"(}},"required":["b"]})";
    }
    product += R"(]}},"required":["a"]})";
  }
  const auto compiled = grammar::json_schema(R"({"properties":{"m":{"anyOf":[)" + product +
                                             R"(]},"a":{"type":"null"},"z":{"type":"null"}}})");
  Session session(compiled);
  EXPECT_THROW(session.type(R"({"m":{"a":)"), ConstraintRefused);
  // The others go on.
  Session other(compiled);
  EXPECT_FALSE(other.type(R"({"a":null})"));

  UnsharedTurn turn;
  grammar::WorkMeter meter(turn, 10'000);
  meter.spend(9'000);
  EXPECT_THROW(meter.spend(2'000), ConstraintRefused);
}

TEST(Constraint, LongTextsTakeNoMoreMemoryThanTheirStack) {
  Session session(grammar::json_object());
  session.type(R"({"a":[)");
  for (int i = 0; i < 20'000; ++i)
    ASSERT_TRUE(session.constraint().accept(token_id(i % 2 == 0 ? "1" : ","), test::unshared_turn()));
  EXPECT_TRUE(session.type(R"("x"]})") == false);
}

TEST(Constraint, GrammarsAreShared) {
  const auto* const schema = R"({"type":"object","properties":{"q":{"type":"string"}}})";
  EXPECT_EQ(grammar::json_schema(schema), grammar::json_schema(schema));
  Session first(grammar::json_schema(schema));
  Session second(grammar::json_schema(schema));
  first.type(R"({"q":")");
  EXPECT_TRUE(second.allows("{"));
  EXPECT_FALSE(second.allows("x"));
  EXPECT_TRUE(first.allows("x"));
}

}  // namespace
}  // namespace inferno
