#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf/reader.hpp"
#include "tokenizer/fixtures.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {
namespace {

class TaleTest : public testing::Test {
 protected:
  TaleTest() : tokenizer_(load()) {}
  static Tokenizer load() {
    const auto file = gguf::File::open(std::filesystem::path(INFERNO_MODELS) / "tale-12m-q8_0.gguf");
    return Tokenizer::from_gguf(file);  // keeps nothing of the file
  }
  Tokenizer tokenizer_;
};

TEST_F(TaleTest, GoldenPrompts) {
  const auto golden = nlohmann::json::parse(
      test::read_file(std::filesystem::path(INFERNO_MODELS) / "tale-12m-q8_0.golden.json"));
  ASSERT_FALSE(golden["prompts"].empty());
  for (const auto& prompt : golden["prompts"]) {
    const auto text = prompt["text"].get<std::string>();
    const auto ids = prompt["ids"].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer_.encode(text, true), ids) << text;
    EXPECT_EQ(tokenizer_.decode(ids), text);
  }
}

TEST_F(TaleTest, KnowsItsMarkup) {
  EXPECT_EQ(tokenizer_.size(), 8192U);
  EXPECT_THAT(tokenizer_.end_tokens(), testing::ElementsAre(8189, 8191));
  EXPECT_EQ(tokenizer_.bos(), 8189);
  EXPECT_FALSE(tokenizer_.adds_bos());
  EXPECT_EQ(tokenizer_.encode("<|im_start|>", true), std::vector<TokenId>{8190});
  EXPECT_GT(tokenizer_.encode("<|im_start|>", false).size(), 1U);
  EXPECT_FALSE(tokenizer_.vocabulary().chat_template.empty());
}

}  // namespace
}  // namespace inferno
