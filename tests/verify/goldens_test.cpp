#include "verify/goldens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <inferno/error.hpp>

#include "support/temporary_folder.hpp"

namespace inferno::verify {
namespace {

using ::testing::HasSubstr;

class GoldensTest : public ::testing::Test {
 protected:
  std::vector<GoldenCase> read(std::string_view text) {
    return read_goldens(folder_.write("x.golden.json", text), 10);
  }
  std::string refusal(std::string_view text) {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }
  test::TemporaryFolder folder_;
};

TEST_F(GoldensTest, AllLogits) {
  const auto goldens =
      read(R"({"model": "x.gguf", "cases": [{"ids": [1, 2], "last_logits": [0.5, -1, 3]}]})");
  ASSERT_EQ(goldens.size(), 1U);
  EXPECT_EQ(goldens[0].ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(goldens[0].logit_ids, (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(goldens[0].logits, (std::vector<double>{0.5, -1, 3}));
  EXPECT_TRUE(goldens[0].greedy_ids.empty());
}

TEST_F(GoldensTest, HighestLogitsAndText) {
  const auto goldens = read(
      R"({"prompts": [{"ids": [1], "top20_ids": [9, 4], "top20_logits": [2.5, 2], "greedy_ids": [9, 3]}]})");
  EXPECT_EQ(goldens.at(0).logit_ids, (std::vector<std::int32_t>{9, 4}));
  EXPECT_EQ(goldens.at(0).greedy_ids, (std::vector<std::int32_t>{9, 3}));
}

TEST_F(GoldensTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(refusal("{"), HasSubstr("x.golden.json"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no golden file"));
  EXPECT_THAT(refusal(R"({"cases": []})"), HasSubstr("no cases"));
  EXPECT_THAT(refusal(R"({"cases": [{"ids": [1]}]})"), HasSubstr("no golden file"));
  EXPECT_THAT(refusal(R"({"cases": [{"ids": "1", "last_logits": [1]}]})"),
              HasSubstr("case 0: ids: expected a list of token ids, found \"1\""));
  EXPECT_THAT(refusal(R"({"cases": [{"ids": [], "last_logits": [1]}]})"), HasSubstr("case 0 has no ids"));
  EXPECT_THAT(refusal(R"({"cases": [{"ids": [1], "last_logits": []}]})"), HasSubstr("no logits"));
  EXPECT_THAT(refusal(R"({"prompts": [{"ids": [1], "top20_ids": [1], "top20_logits": [1, 2]}]})"),
              HasSubstr("2 logits for 1 ids"));
  EXPECT_THAT(refusal(R"({"cases": [{"ids": [10], "last_logits": [1]}]})"), HasSubstr("id 10"));
  for (const std::string id : {"-1", "1.5", "4294967297", "\"1\""}) {
    EXPECT_THAT(refusal(R"({"cases": [{"ids": [1, )" + id + R"(], "last_logits": [1]}]})"),
                HasSubstr("case 0: ids[1]: expected a token id, found " + id));
  }
  EXPECT_THROW(read_goldens(folder_ / "missing.json", 10), Error);
}

TEST_F(GoldensTest, LieBesideTheModel) {
  EXPECT_EQ(goldens_beside("/m/tale-12m-q8_0.gguf"), "/m/tale-12m-q8_0.golden.json");
}

}  // namespace
}  // namespace inferno::verify
