#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/fixtures.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json good() {
  return Json::parse(R"json({
    "added_tokens": [
      {"id": 3, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
       "special": true},
      {"id": 4, "content": "<think>", "special": false}
    ],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
       "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
              "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
              "vocab": {"ab": 2, "b": 1, "a": 0}, "merges": [["a", "b"]]}
  })json");
}

Vocabulary read(const Json& json, const std::string& config = "") {
  return vocabulary_from_json(json.dump(), config);
}

std::string refusal(const std::function<void(Json&)>& spoil) {
  Json json = good();
  spoil(json);
  return test::error_of([&] { read(json); });
}

TEST(VocabularyJson, ReadsTokensTypesAndMerges) {
  const auto vocabulary = read(good());
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"a", "b", "ab", "<|im_end|>", "<think>"}));
  EXPECT_EQ(vocabulary.types, (std::vector<TokenType>{TokenType::normal, TokenType::normal, TokenType::normal,
                                                      TokenType::control, TokenType::user_defined}));
  EXPECT_EQ(vocabulary.merges, (std::vector<std::pair<std::string, std::string>>{{"a", "b"}}));
  EXPECT_EQ(vocabulary.eos, 3);
  EXPECT_FALSE(vocabulary.bos);
  EXPECT_FALSE(vocabulary.add_bos);
}

TEST(VocabularyJson, ReadsTheOlderFormOfMerges) {
  Json json = good();
  json["model"]["merges"] = Json::array({"a b"});
  EXPECT_EQ(read(json).merges, (std::vector<std::pair<std::string, std::string>>{{"a", "b"}}));
}

TEST(VocabularyJson, AnAddedTokenOfTheVocabularyKeepsItsId) {
  Json json = good();
  json["added_tokens"].push_back({{"id", 1}, {"content", "b"}, {"special", true}});
  EXPECT_EQ(read(json).types.at(1), TokenType::control);
}

TEST(VocabularyJson, ReadsTheConfiguration) {
  const auto vocabulary =
      read(good(), R"({"eos_token": {"content": "<think>"}, "bos_token": "a", "pad_token": null,
                                           "add_bos_token": true, "chat_template": "{{ x }}"})");
  EXPECT_EQ(vocabulary.eos, 4);
  EXPECT_EQ(vocabulary.bos, 0);
  EXPECT_FALSE(vocabulary.pad);
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_EQ(vocabulary.chat_template, "{{ x }}");
  EXPECT_EQ(
      read(good(),
           R"({"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]})")
          .chat_template,
      "d");
}

TEST(VocabularyJson, SaysWhatItLeavesOut) {
  Json json = good();
  json["post_processor"] = {{"type", "TemplateProcessing"}, {"single", Json::array()}};
  json["added_tokens"][1]["normalized"] = true;
  const test::CapturedLog log;
  read(json);
  EXPECT_THAT(log.text(), HasSubstr("post_processor: what it would put around texts is left out"));
  EXPECT_THAT(log.text(), HasSubstr("\"<think>\" is to be found after normalization"));
}

TEST(VocabularyJson, RefusesWhatItWouldGetWrong) {
  EXPECT_THAT(refusal([](Json& j) { j["normalizer"] = nullptr; }),
              HasSubstr("normalizer.type: expected \"NFC\""));
  EXPECT_THAT(refusal([](Json& j) { j["normalizer"]["type"] = "NFKC"; }),
              HasSubstr("found {\"type\":\"NFKC\"}"));
  EXPECT_THAT(refusal([](Json& j) {
                j["pre_tokenizer"] = Json{{"type", "ByteLevel"}};
              }),
              HasSubstr("pre_tokenizer: expected"));
  EXPECT_THAT(
      refusal([](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{N}{1,3}"; }),
      HasSubstr("Qwen2's split pattern"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["type"] = "Unigram"; }), HasSubstr("model.type"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["ignore_merges"] = true; }), HasSubstr("model.ignore_merges"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["byte_fallback"] = true; }), HasSubstr("model.byte_fallback"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["dropout"] = 0.1; }), HasSubstr("model.dropout"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }),
              HasSubstr("model.end_of_word_suffix"));
  EXPECT_THAT(refusal([](Json& j) { j["added_tokens"][0]["lstrip"] = true; }),
              HasSubstr("added_tokens[0].lstrip"));
  EXPECT_THAT(refusal([](Json& j) { j["added_tokens"][1]["single_word"] = true; }),
              HasSubstr("added_tokens[1].single_word"));
}

TEST(VocabularyJson, RefusesBrokenStructures) {
  EXPECT_THAT(test::error_of([] { vocabulary_from_json("{\"a\": [", ""); }),
              HasSubstr("tokenizer.json: not JSON"));
  EXPECT_THAT(test::error_of([] { vocabulary_from_json("", ""); }), HasSubstr("tokenizer.json: not JSON"));
  EXPECT_THAT(test::error_of([] { read(good(), std::string("{}\0{}", 5)); }),
              HasSubstr("tokenizer_config.json: not JSON: found a NUL at byte 3"));
  EXPECT_THAT(test::error_of([] { vocabulary_from_json("[]", ""); }),
              HasSubstr("expected a JSON object, found array"));
  EXPECT_THAT(test::error_of([] { vocabulary_from_json(std::string(200'000, '['), ""); }),
              HasSubstr("not JSON"));
  EXPECT_THAT(test::error_of([] { vocabulary_from_json("{\"model\": \"\xFF\"}", ""); }),
              HasSubstr("not JSON"));
  EXPECT_THAT(test::error_of([] { read(good(), "{"); }), HasSubstr("tokenizer_config.json: not JSON"));
  EXPECT_THAT(refusal([](Json& j) { j.erase("model"); }), HasSubstr("model.type"));
  EXPECT_THAT(refusal([](Json& j) { j["model"].erase("vocab"); }), HasSubstr("model.vocab"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["vocab"]["x"] = -1; }),
              HasSubstr("model.vocab: expected an id below"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["vocab"]["x"] = 4'000'000'000; }),
              HasSubstr("expected an id below"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["vocab"]["x"] = 1.5; }), HasSubstr("expected an id below"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["vocab"]["x"] = 0; }), HasSubstr("id 0 belongs to"));
  EXPECT_THAT(refusal([](Json& j) {
                j["model"]["vocab"].erase("b");
                j["added_tokens"].push_back({{"id", 0}, {"content", "a"}});
              }),
              HasSubstr("found none for 1"));
  EXPECT_THAT(refusal([](Json& j) { j["model"].erase("merges"); }), HasSubstr("model.merges"));
  EXPECT_THAT(refusal([](Json& j) { j["model"]["merges"].push_back("ab"); }),
              HasSubstr("model.merges[1]: expected two parts"));
  EXPECT_THAT(refusal([](Json& j) {
                j["model"]["merges"].push_back({"a", ""});
              }),
              HasSubstr("model.merges[1]"));
  EXPECT_THAT(refusal([](Json& j) {
                j["model"]["merges"].push_back({"a", 1});
              }),
              HasSubstr("model.merges[1]"));
  EXPECT_THAT(refusal([](Json& j) { j["added_tokens"] = 3; }), HasSubstr("added_tokens: expected an array"));
  EXPECT_THAT(refusal([](Json& j) { j["added_tokens"][0].erase("id"); }), HasSubstr("added_tokens[0]"));
  EXPECT_THAT(refusal([](Json& j) {
                j["added_tokens"].erase(0);
                j["added_tokens"][0]["id"] = 3;
              }),
              HasSubstr("eos_token"));
  EXPECT_THAT(test::error_of([] { read(good(), R"({"eos_token": "nowhere"})"); }),
              HasSubstr("eos_token: expected a token of the vocabulary, found \"nowhere\""));
  EXPECT_THAT(test::error_of([] { read(good(), R"({"chat_template": 7})"); }), HasSubstr("chat_template"));
}

}  // namespace
}  // namespace inferno
