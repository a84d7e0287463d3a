#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "gguf/reader.hpp"
#include "gguf/writer.hpp"
#include "tokenizer/fixtures.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno {
namespace {

using gguf::Array;
using gguf::Value;
using gguf::ValueType;
using testing::HasSubstr;

/// The metadata of a file while it is put together.
using Entries = std::vector<std::pair<std::string, Value>>;

Array strings(std::vector<std::string> list) {
  return {ValueType::string, std::move(list)};
}
Array types(std::vector<std::int32_t> list) {
  return {ValueType::i32, std::move(list)};
}

/// A file that loads: five tokens, one merge.
Entries good() {
  return {{"tokenizer.ggml.model", std::string("gpt2")},
          {"tokenizer.ggml.pre", std::string("qwen2")},
          {"tokenizer.ggml.tokens", strings({"a", "b", "ab", "<|end|>", "<think>"})},
          {"tokenizer.ggml.token_type", types({1, 1, 1, 3, 4})},
          {"tokenizer.ggml.merges", strings({"a b"})},
          {"tokenizer.ggml.eos_token_id", std::uint32_t{3}}};
}

void set(Entries& entries, const std::string& key, Value value) {
  for (auto& entry : entries) {
    if (entry.first == key) {
      entry.second = std::move(value);
      return;
    }
  }
  entries.emplace_back(key, std::move(value));
}

void remove(Entries& entries, const std::string& key) {
  std::erase_if(entries, [&](const auto& entry) { return entry.first == key; });
}

class VocabularyGguf : public testing::Test {
 protected:
  gguf::File write(const Entries& entries) const {
    gguf::Writer writer;
    for (const auto& [key, value] : entries) writer.add(key, value);
    writer.write(file_.path());
    return gguf::File::open(file_.path());
  }
  /// The message with which a file is refused.
  std::string refusal(const std::function<void(Entries&)>& spoil) const {
    Entries entries = good();
    spoil(entries);
    const auto file = write(entries);
    const std::string message = test::error_of([&] { Tokenizer::from_gguf(file); });
    EXPECT_THAT(message, testing::StartsWith("\"" + file_.path().string() + "\": "));
    return message;
  }
  /// What is logged while a file loads.
  std::string warning(const std::function<void(Entries&)>& change) const {
    Entries entries = good();
    change(entries);
    const auto file = write(entries);
    const test::CapturedLog log;
    Tokenizer::from_gguf(file);
    return log.text();
  }

  test::TemporaryFile file_{"vocabulary.gguf"};
  test::CapturedLog quiet_;
};

TEST_F(VocabularyGguf, ReadsWhatAFileSays) {
  Entries entries = good();
  set(entries, "tokenizer.ggml.bos_token_id", std::uint64_t{0});
  set(entries, "tokenizer.ggml.eot_token_id", std::int32_t{4});
  set(entries, "tokenizer.ggml.padding_token_id", std::uint8_t{1});
  set(entries, "tokenizer.ggml.add_bos_token", true);
  set(entries, "tokenizer.chat_template", std::string("{{ messages }}"));
  const auto vocabulary = vocabulary_from_gguf(write(entries));
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"a", "b", "ab", "<|end|>", "<think>"}));
  EXPECT_EQ(vocabulary.types, (std::vector<TokenType>{TokenType::normal, TokenType::normal, TokenType::normal,
                                                      TokenType::control, TokenType::user_defined}));
  EXPECT_EQ(vocabulary.merges, (std::vector<std::pair<std::string, std::string>>{{"a", "b"}}));
  EXPECT_EQ(vocabulary.bos, 0);
  EXPECT_EQ(vocabulary.eos, 3);
  EXPECT_EQ(vocabulary.eot, 4);
  EXPECT_EQ(vocabulary.pad, 1);
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_EQ(vocabulary.chat_template, "{{ messages }}");
}

TEST_F(VocabularyGguf, WritesWhatItReads) {
  auto vocabulary = test::chat_vocabulary();
  vocabulary.bos = 3;
  vocabulary.pad = 4;
  vocabulary.eot = 5;
  vocabulary.add_bos = true;
  vocabulary.chat_template = "{{ x }}";
  gguf::Writer writer;
  add_to_gguf(vocabulary, writer);
  writer.write(file_.path());
  const auto back = vocabulary_from_gguf(gguf::File::open(file_.path()));
  EXPECT_EQ(back.tokens, vocabulary.tokens);
  EXPECT_EQ(back.types, vocabulary.types);
  EXPECT_EQ(back.merges, vocabulary.merges);
  EXPECT_EQ(back.bos, vocabulary.bos);
  EXPECT_EQ(back.eos, vocabulary.eos);
  EXPECT_EQ(back.eot, vocabulary.eot);
  EXPECT_EQ(back.pad, vocabulary.pad);
  EXPECT_EQ(back.add_bos, vocabulary.add_bos);
  EXPECT_EQ(back.chat_template, vocabulary.chat_template);
}

TEST_F(VocabularyGguf, MissingKeysAreRefusedByName) {
  for (const auto* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
                          "tokenizer.ggml.merges", "tokenizer.ggml.eos_token_id"}) {
    EXPECT_THAT(
        refusal([&](auto& entries) { remove(entries, key); }),
        testing::AllOf(HasSubstr("\"" + std::string(key) + "\": expected"), HasSubstr("found no such key")))
        << key;
  }
}

TEST_F(VocabularyGguf, ForeignTokenizersAreRefusedNamingWhatIsAccepted) {
  EXPECT_THAT(
      refusal([](auto& e) { set(e, "tokenizer.ggml.model", std::string("llama")); }),
      testing::ContainsRegex(
          "metadata key \"tokenizer.ggml.model\": expected \"gpt2\" at byte [0-9]+, found \"llama\""));
  EXPECT_THAT(
      refusal([](auto& e) { set(e, "tokenizer.ggml.pre", std::string("llama-bpe")); }),
      testing::ContainsRegex(
          "metadata key \"tokenizer.ggml.pre\": expected \"qwen2\" at byte [0-9]+, found \"llama-bpe\""));
  EXPECT_THAT(refusal([](auto& e) { set(e, "tokenizer.ggml.pre", std::string(5000, '\n')); }),
              HasSubstr("found \"\\n"));
  EXPECT_THAT(refusal([](auto& e) { set(e, "tokenizer.ggml.pre", std::uint32_t{2}); }), HasSubstr("found 2"));
}

TEST_F(VocabularyGguf, SpecialIdsBeyondTheVocabularyAreRefused) {
  for (const auto* name : {"bos", "eos", "eot", "padding", "unknown", "eom", "fim_pre"}) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    const std::string expected =
        "\"" + key + "\": expected a token id below 5, the length of tokenizer.ggml.tokens, at byte ";
    EXPECT_THAT(refusal([&](auto& e) { set(e, key, std::uint32_t{4294967295}); }),
                testing::AllOf(HasSubstr(expected), HasSubstr("found 4294967295")));
    EXPECT_THAT(refusal([&](auto& e) { set(e, key, std::uint32_t{5}); }), HasSubstr(expected));
    EXPECT_THAT(refusal([&](auto& e) { set(e, key, std::int32_t{-1}); }),
                testing::AllOf(HasSubstr(expected), HasSubstr("found -1")));
    EXPECT_THAT(refusal([&](auto& e) { set(e, key, ~std::uint64_t{0}); }), HasSubstr(expected));
    EXPECT_THAT(refusal([&](auto& e) { set(e, key, std::string("3")); }), HasSubstr("found \"3\""));
    EXPECT_THAT(refusal([&](auto& e) { set(e, key, 3.0F); }), HasSubstr("found 3 (f32)"));
  }
}

TEST_F(VocabularyGguf, AOneTokenVocabularyWithoutEosIsRefused) {
  EXPECT_THAT(refusal([](auto& e) {
                set(e, "tokenizer.ggml.tokens", strings({"a"}));
                set(e, "tokenizer.ggml.token_type", types({1}));
                set(e, "tokenizer.ggml.merges", strings({}));
                remove(e, "tokenizer.ggml.eos_token_id");
              }),
              HasSubstr("\"tokenizer.ggml.eos_token_id\": expected"));
}

TEST_F(VocabularyGguf, WrongShapesAreRefused) {
  EXPECT_THAT(refusal([](auto& e) { set(e, "tokenizer.ggml.tokens", strings({})); }),
              testing::ContainsRegex("tokens\": expected 1 to .* at byte [0-9]+, found 0"));
  EXPECT_THAT(refusal([](auto& e) {
                set(e, "tokenizer.ggml.tokens", types({1, 2, 3, 4, 5}));
              }),
              testing::ContainsRegex(
                  "tokens\": expected an array of strings at byte [0-9]+, found an array of 5 i32"));
  EXPECT_THAT(refusal([](auto& e) { set(e, "tokenizer.ggml.tokens", std::string("a b")); }),
              HasSubstr("found \"a b\""));
  EXPECT_THAT(refusal([](auto& e) { set(e, "tokenizer.ggml.merges", types({1})); }),
              HasSubstr("\"tokenizer.ggml.merges\": expected an array of strings at byte "));
  EXPECT_THAT(refusal([](auto& e) {
                set(e, "tokenizer.ggml.token_type", types({1, 1}));
              }),
              testing::ContainsRegex(
                  "token_type\": expected an array of 5 integers at byte [0-9]+, found an array of 2 i32"));
  EXPECT_THAT(refusal([](auto& e) {
                set(e, "tokenizer.ggml.token_type", strings({"1", "1", "1", "3", "4"}));
              }),
              HasSubstr("found an array of 5 string"));
  EXPECT_THAT(refusal([](auto& e) {
                set(e, "tokenizer.ggml.token_type", types({1, 1, 7, 3, 4}));
              }),
              testing::ContainsRegex("expected 1 to 6 for token 2 of the array at byte [0-9]+, found 7"));
  EXPECT_THAT(refusal([](auto& e) {
                set(e, "tokenizer.ggml.token_type", types({1, 1, -1, 3, 4}));
              }),
              HasSubstr("found -1"));
  EXPECT_THAT(refusal([](auto& e) { set(e, "tokenizer.ggml.add_bos_token", std::uint32_t{1}); }),
              testing::ContainsRegex("add_bos_token\": expected true or false at byte [0-9]+, found 1"));
  EXPECT_THAT(refusal([](auto& e) { set(e, "tokenizer.ggml.add_bos_token", true); }),
              HasSubstr("add_bos_token\": expected false without tokenizer.ggml.bos_token_id at byte "));
  EXPECT_THAT(refusal([](auto& e) { set(e, "tokenizer.chat_template", types({1})); }),
              HasSubstr("\"tokenizer.chat_template\": expected a string at byte "));
}

TEST_F(VocabularyGguf, MalformedMergesAreIgnoredWithAWarning) {
  const std::string text = warning([](auto& e) {
    set(e, "tokenizer.ggml.merges", strings({"ab", " b", "a ", "", " ", "a b", "a a", "a  b", "\n\xFF"}));
  });
  EXPECT_THAT(
      text,
      HasSubstr(
          "ignoring 6 of 9 entries that are not two parts with a space between, such as entry 0: \"ab\""));
  EXPECT_THAT(text, HasSubstr("ignoring 2 of 3 merges: \"a a\" at rank 1"));
}

TEST_F(VocabularyGguf, WithoutTypesNothingIsMarkupAndThatIsSaid) {
  EXPECT_THAT(warning([](auto& e) { remove(e, "tokenizer.ggml.token_type"); }),
              HasSubstr("tokenizer.ggml.token_type is missing"));
}

TEST_F(VocabularyGguf, RepeatedTokensLoadWithAWarning) {
  EXPECT_THAT(warning([](auto& e) {
                set(e, "tokenizer.ggml.tokens", strings({"a", "b", "ab", "<|end|>", "a"}));
              }),
              HasSubstr("1 tokens with the string of an earlier one (4 repeats 0)"));
}

TEST_F(VocabularyGguf, TypesOfAnyIntegerWidthAreRead) {
  Entries entries = good();
  set(entries, "tokenizer.ggml.token_type", Array{ValueType::u64, std::vector<std::uint64_t>{1, 1, 1, 3, 4}});
  EXPECT_EQ(vocabulary_from_gguf(write(entries)).types.at(3), TokenType::control);
  set(entries, "tokenizer.ggml.token_type", Array{ValueType::u8, std::vector<std::uint8_t>{1, 1, 1, 3, 4}});
  EXPECT_EQ(vocabulary_from_gguf(write(entries)).types.at(4), TokenType::user_defined);
}

}  // namespace
}  // namespace inferno
