#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gguf/reader.hpp"
#include "gguf/writer.hpp"
#include "tokenizer/fixtures.hpp"
#include "tokenizer/normalizer.hpp"
#include "tokenizer/qwen3_fixture.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {
namespace {

using Ids = std::vector<TokenId>;

class Qwen3 : public test::Qwen3Test {};

nlohmann::json golden() {
  return nlohmann::json::parse(
      test::read_file(std::filesystem::path(INFERNO_TEST_DATA) / "golden/tokens_qwen3.json"));
}

TEST_F(Qwen3, GoldenIds) {
  const auto cases = golden();
  ASSERT_GT(cases.size(), 80U);
  for (const auto& entry : cases) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = entry["ids"].get<Ids>();
    EXPECT_EQ(tokenizer().encode(text, true), ids) << text;
    EXPECT_EQ(to_valid_utf8(tokenizer().decode(ids)), entry["decoded"].get<std::string>()) << text;
  }
}

TEST_F(Qwen3, PretokenizerDetails) {
  const std::pair<std::string, Ids> cases[] = {
      {"", {}},
      {"1234567890", {16, 17, 18, 19, 20, 21, 22, 23, 24, 15}},
      {"3.14159", {18, 13, 16, 19, 16, 20, 24}},
      {"I'LL we'VE it's DON'T", {40, 6, 4086, 582, 6, 4491, 432, 594, 44273, 17323}},
      {" hello", {23811}},
      {"  hello", {220, 23811}},
      {"hello ", {14990, 220}},
      {"hello\n\n\n  world", {14990, 1406, 220, 1879}},
      {"\t\tx", {197, 10225}},
      {"x\r\n\r\ny", {87, 871, 88}},
      {"\u00A0hello", {4102, 14990}},
      {"\uFEFFhello", {3225, 14990}},
      {"\u3000\u3000你好", {22441, 22441, 108386}},
      {"你好，世界", {108386, 3837, 99489}},
      {"สวัสดีชาวโลก", {143126, 23271, 125136, 28319, 126660, 126397}},
      {"हिन्दी नमस्ते", {93948, 42311, 101, 30484, 99, 43647, 14925, 101, 87244, 78368, 30484, 97, 34370}},
      {"\u0645\u0650\u0646", {10176, 52704, 11798}},
      {"👨\u200D👩\u200D👧\u200D👦", {145367, 378, 235, 145233, 378, 235, 145665, 378, 235, 145988}},
      {"٤٥½Ⅳ²", {149, 97, 149, 98, 26062, 70467, 96, 29456}},
      {"<think>hi</think><tool_call>", {151667, 6023, 151668, 151657}},
      {"<think", {13708, 766}},
  };
  for (const auto& [text, ids] : cases) {
    EXPECT_EQ(tokenizer().encode(text, true), ids) << text;
    EXPECT_EQ(tokenizer().decode(ids), text);
  }
}

TEST_F(Qwen3, AgreesWithTheReferenceOnGeneratedTexts) {
  const auto path = test::qwen3_folder() / "reference.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there; run scripts/fetch-tokenizer";
  const auto cases = nlohmann::json::parse(test::read_file(path));
  ASSERT_GE(cases.size(), 5000U);
  std::size_t different = 0;
  for (const auto& entry : cases) {
    const auto text = entry["text"].get<std::string>();
    const auto ids = tokenizer().encode(text, true);
    if (ids != entry["ids"].get<Ids>() && different++ < 5) {
      ADD_FAILURE() << entry.dump() << "\nfound " << nlohmann::json(ids).dump();
    }
    ASSERT_EQ(nfc(tokenizer().decode(ids)), nfc(text)) << text;
    ASSERT_EQ(tokenizer().decode(tokenizer().encode(text, false)), nfc(text)) << text;
  }
  EXPECT_EQ(different, 0U) << "of " << cases.size();
}

TEST_F(Qwen3, TheVocabularySurvivesAFile) {
  const test::TemporaryFile file("qwen3.gguf");
  gguf::Writer writer;
  add_to_gguf(tokenizer().vocabulary(), writer);
  writer.write(file.path());
  const auto read = Tokenizer::from_gguf(gguf::File::open(file.path()));
  EXPECT_EQ(read.vocabulary().tokens, tokenizer().vocabulary().tokens);
  EXPECT_EQ(read.vocabulary().types, tokenizer().vocabulary().types);
  EXPECT_EQ(read.vocabulary().merges, tokenizer().vocabulary().merges);
  EXPECT_EQ(read.vocabulary().chat_template, tokenizer().vocabulary().chat_template);
  for (const auto& entry : golden()) {
    EXPECT_EQ(read.encode(entry["text"].get<std::string>(), true), entry["ids"].get<Ids>());
  }
  EXPECT_THAT(read.end_tokens(), testing::ElementsAre(151643, 151645));
}

TEST_F(Qwen3, KnowsItsMarkup) {
  EXPECT_EQ(tokenizer().size(), 151669U);
  EXPECT_THAT(tokenizer().end_tokens(), testing::ElementsAre(151643, 151645));
  EXPECT_FALSE(tokenizer().bos());
  EXPECT_FALSE(tokenizer().adds_bos());
  EXPECT_TRUE(tokenizer().is_control(151644));
  EXPECT_TRUE(tokenizer().is_control(151656));
  EXPECT_FALSE(tokenizer().is_control(151657));  // <tool_call>, <think> and the like are printed
  EXPECT_FALSE(tokenizer().is_control(151668));
  // Rows of the matrix beyond the list of tokens: legal ids without text.
  for (const TokenId id : {151669, 151900, 151935, 151936}) {
    EXPECT_EQ(tokenizer().bytes(id), "");
    EXPECT_FALSE(tokenizer().is_control(id));
  }
}

TEST_F(Qwen3, StreamsWholeCharacters) {
  const std::pair<Ids, std::string> chains[] = {
      {{64, 124596, 252, 65},
       "a\U0001D11E"
       "b"},
      {{145367, 378, 235, 145233}, "👨\u200D👩"},
      {{12004, 4645, 55877, 14586}, "abababactail"},
  };
  for (const auto& [ids, expected] : chains) {
    StreamDecoder decoder;
    std::string joined;
    for (const TokenId id : ids) {
      const auto text = decoder.push(tokenizer().bytes(id));
      EXPECT_EQ(text.find("\uFFFD"), std::string::npos);
      EXPECT_EQ(to_valid_utf8(text), text);
      joined += text;
    }
    joined += decoder.finish();
    EXPECT_EQ(joined, expected);
    EXPECT_EQ(tokenizer().decode(ids), expected);
  }
}

TEST_F(Qwen3, AnyIdsStreamAsTheirWholeDecodes) {
  test::Dice dice(31);
  for (int round = 0; round < 50; ++round) {
    Ids ids;
    while (ids.size() < 200) ids.push_back(static_cast<TokenId>(dice(151'936)));
    StreamDecoder decoder;
    std::string joined;
    for (const TokenId id : ids) {
      const auto text = decoder.push(tokenizer().bytes(id));
      ASSERT_EQ(to_valid_utf8(text), text);
      joined += text;
    }
    joined += decoder.finish();
    ASSERT_EQ(joined, to_valid_utf8(tokenizer().decode(ids)));
  }
}

}  // namespace
}  // namespace inferno
