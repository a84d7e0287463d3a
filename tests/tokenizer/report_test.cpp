#include "tokenizer/report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "tokenizer/fixtures.hpp"

namespace inferno {
namespace {

TEST(Report, JsonHoldsIdsAndTexts) {
  const Tokenizer tokenizer(test::chat_vocabulary());
  const auto ids = tokenizer.encode("hello \u4E2D\"\n<|end|>", true);
  const auto report = nlohmann::json::parse(tokens_as_json(tokenizer, ids));
  EXPECT_EQ(report.size(), 2U);
  EXPECT_EQ(report["ids"].get<std::vector<TokenId>>(), ids);
  EXPECT_EQ(report["tokens"].get<std::vector<std::string>>(),
            (std::vector<std::string>{"hello", " ", "\uFFFD", "\uFFFD", "\uFFFD", "\"", "\n", "<|end|>"}));
  EXPECT_EQ(tokens_as_json(tokenizer, {}), R"({"ids":[],"tokens":[]})");
}

TEST(Report, TextShowsWhatATerminalWouldNot) {
  const Tokenizer tokenizer(test::chat_vocabulary());
  const auto ids = tokenizer.encode("hello\x1B\n<|end|>", true);
  EXPECT_EQ(tokens_as_text(tokenizer, ids),
            "     259  \"hello\"\n"
            "      27  \"\\x1b\"\n"
            "      10  \"\\n\"\n"
            "     265  \"<|end|>\"  control\n"
            "4 tokens\n");
  auto vocabulary = test::chat_vocabulary();
  for (const auto* token : {"\u009B2J", "\x7F", "\u00E9"}) {
    vocabulary.tokens.emplace_back(token);
    vocabulary.types.push_back(TokenType::user_defined);
  }
  EXPECT_EQ(tokens_as_text(Tokenizer(vocabulary), std::vector<TokenId>{269, 270, 271}),
            "     269  \"\\u{9b}2J\"\n"
            "     270  \"\\x7f\"\n"
            "     271  \"\u00E9\"\n"
            "3 tokens\n");
  vocabulary.tokens.emplace_back(200, 'y');
  vocabulary.types.push_back(TokenType::user_defined);
  EXPECT_EQ(tokens_as_text(Tokenizer(vocabulary), std::vector<TokenId>{272}),
            "     272  \"" + std::string(200, 'y') + "\"\n1 token\n");
  EXPECT_EQ(tokens_as_text(tokenizer, std::vector<TokenId>{'x'}), "     120  \"x\"\n1 token\n");
}

}  // namespace
}  // namespace inferno
