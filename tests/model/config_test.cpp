#include "model/config.hpp"

#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>

#include "gguf/reader.hpp"
#include "model/refusal.hpp"

namespace inferno {
namespace {

using test::expect_refused;
using test::RandomModel;
using test::TemporaryFile;

ModelConfig config_of(const RandomModel& model) {
  const TemporaryFile file(model);
  return read_config(gguf::File::open(file.path()));
}

RandomModel with(const std::string& key, gguf::Value value) {
  RandomModel model;
  model.metadata = {{key, std::move(value)}};
  return model;
}

RandomModel without(const std::string& key) {
  RandomModel model;
  model.without_keys = {key};
  return model;
}

TEST(Config, HoldsWhatTheFileSays) {
  RandomModel model;
  model.layers = 3;
  model.hidden_size = 96;
  model.ffn_size = 224;
  model.heads = 5;
  model.kv_heads = 1;
  model.head_dim = 32;
  model.vocab_size = 77;
  model.context_length = 40960;
  model.rms_epsilon = 1e-5F;
  model.rope_base = 5e5F;
  model.tied_head = false;
  const ModelConfig config = config_of(model);
  EXPECT_EQ(config.name, "random");
  EXPECT_EQ(config.layers, 3U);
  EXPECT_EQ(config.hidden_size, 96U);
  EXPECT_EQ(config.ffn_size, 224U);
  EXPECT_EQ(config.heads, 5U);
  EXPECT_EQ(config.kv_heads, 1U);
  EXPECT_EQ(config.head_dim, 32U);
  EXPECT_EQ(config.query_width(), 160U);
  EXPECT_EQ(config.kv_width(), 32U);
  EXPECT_EQ(config.vocab_size, 77U);
  EXPECT_EQ(config.context_length, 40960U);
  EXPECT_EQ(config.rms_epsilon, 1e-5F);
  EXPECT_EQ(config.rope_base, 5e5F);
  EXPECT_FALSE(config.tied_head);
  EXPECT_EQ(config.rope_scaling.type, RopeScaling::Type::none);
}

TEST(Config, TakesTheFilesNameIfTheModelHasNone) {
  const TemporaryFile file(without("general.name"));
  EXPECT_EQ(read_config(gguf::File::open(file.path())).name, file.path().stem().string());
}

TEST(Config, RefusesOtherArchitecturesByName) {
  expect_refused(with("general.architecture", std::string("qwen3moe")), {"\"qwen3moe\"", "inferno supports"});
  expect_refused(with("general.architecture", std::string("llama")), {"\"llama\"", "inferno supports"});
  expect_refused(with("general.architecture", std::string("Qwen3")), {"\"Qwen3\"", "inferno supports"});
  expect_refused(with("general.architecture", std::uint32_t{3}), {"found 3", "inferno supports"});
  expect_refused(without("general.architecture"),
                 {"\"general.architecture\"", "expected \"qwen3\"", "found no such key"});
}

TEST(Config, NamesEachMissingKey) {
  for (const char* key :
       {"qwen3.block_count", "qwen3.context_length", "qwen3.embedding_length", "qwen3.feed_forward_length",
        "qwen3.attention.head_count", "qwen3.attention.layer_norm_rms_epsilon"}) {
    expect_refused(without(key), {key, "found no such key"});
  }
}

TEST(Config, RefusesZeroAbsurdAndForeignValues) {
  for (const char* key :
       {"qwen3.block_count", "qwen3.context_length", "qwen3.embedding_length", "qwen3.feed_forward_length",
        "qwen3.attention.head_count", "qwen3.attention.head_count_kv", "qwen3.attention.key_length",
        "qwen3.attention.value_length", "qwen3.rope.dimension_count"}) {
    expect_refused(with(key, std::uint32_t{0}), {key, "found 0", "from 1 to"});
    expect_refused(with(key, std::uint32_t{0xFFFFFFFF}), {key, "4294967295", "from 1 to"});
    expect_refused(with(key, std::uint64_t{1} << 63U), {key, "9223372036854775808", "from 1 to"});
    expect_refused(with(key, std::int32_t{-4}), {key, "found -4", "from 1 to"});
    expect_refused(with(key, 64.0F), {key, "from 1 to", "found 64 (f32)"});
    expect_refused(with(key, std::string("64")), {key, "\"64\"", "from 1 to"});
  }
}

TEST(Config, AcceptsAnyWholeNumberType) {
  EXPECT_EQ(config_of(with("qwen3.block_count", std::uint64_t{2})).layers, 2U);
  EXPECT_EQ(config_of(with("qwen3.block_count", std::int32_t{2})).layers, 2U);
  EXPECT_EQ(config_of(with("qwen3.block_count", std::uint8_t{2})).layers, 2U);
}

gguf::Array array(std::vector<std::uint32_t> entries) {
  return {gguf::ValueType::u32, std::move(entries)};
}

TEST(Config, AcceptsAnArrayPerLayerOnlyIfAllLayersAreEqual) {
  EXPECT_EQ(config_of(with("qwen3.feed_forward_length", array({96, 96}))).ffn_size, 96U);
  expect_refused(with("qwen3.feed_forward_length", array({96, 64})),
                 {"qwen3.feed_forward_length", "the same for every layer"});
  expect_refused(with("qwen3.feed_forward_length", array({})), {"qwen3.feed_forward_length"});
}

TEST(Config, AnArrayPerLayerHasAnEntryForEachLayer) {
  for (const char* key :
       {"qwen3.attention.head_count", "qwen3.attention.head_count_kv", "qwen3.feed_forward_length",
        "qwen3.attention.key_length", "qwen3.attention.value_length", "qwen3.rope.dimension_count"}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{7}}) {
      expect_refused(with(key, array(std::vector<std::uint32_t>(size, 2))),
                     {fmt::format("metadata key \"{}\"", key), "an array of 2",
                      "qwen3.block_count = 2 (at byte ", fmt::format("found an array of {} u32", size)});
    }
  }
  EXPECT_EQ(config_of(with("qwen3.attention.head_count_kv", array({2, 2}))).kv_heads, 2U);
}

TEST(Config, WhatIsNotPerLayerIsNoArray) {
  for (const char* key : {"qwen3.block_count", "qwen3.embedding_length", "qwen3.context_length"}) {
    expect_refused(with(key, array({64, 64})), {key, "a whole number", "found an array of 2 u32"});
  }
}

TEST(Config, RefusalsNameTheByteOfTheValue) {
  const TemporaryFile file(with("qwen3.block_count", std::int32_t{-2}));
  const auto open = gguf::File::open(file.path());
  const auto offset = open.find("qwen3.block_count")->offset();
  ASSERT_TRUE(offset);
  try {
    read_config(open);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              fmt::format("\"{}\": metadata key \"qwen3.block_count\": expected a whole number from 1 "
                          "to 4096 at byte {}, found -2",
                          file.path().native(), *offset));
  }
}

TEST(Config, DerivesTheHeadDimensionIfTheFileDoesNotSayIt) {
  RandomModel model;  // hidden 64, 4 heads
  model.head_dim = 16;
  model.without_keys = {"qwen3.attention.key_length", "qwen3.attention.value_length"};
  EXPECT_EQ(config_of(model).head_dim, 16U);

  model.hidden_size = 66;
  expect_refused(model, {"\"qwen3.attention.key_length\"", "found no such key", "embedding_length = 66",
                         "head_count = 4"});
}

TEST(Config, RefusesHeadsThatDoNotFit) {
  RandomModel model;
  model.metadata = {{"qwen3.attention.value_length", std::uint32_t{16}}};
  expect_refused(model, {"\"qwen3.attention.key_length\"", "expected 16", "value_length = 16", "found 32"});

  model.metadata.clear();
  model.without_keys = {"qwen3.attention.key_length"};  // then 64 / 4 = 16
  expect_refused(model, {"\"qwen3.attention.key_length\"", "expected 32", "qwen3.attention.value_length = 32",
                         "found no such key", "= 16 is taken; add it"});

  expect_refused(
      with("qwen3.attention.head_count_kv", std::uint32_t{3}),
      {"\"qwen3.attention.head_count\"", "a multiple of qwen3.attention.head_count_kv = 3", "found 4"});

  RandomModel odd;
  odd.head_dim = 33;
  expect_refused(odd, {"key_length\"", "found 33", "even"});
  odd.head_dim = 16;
  odd.hidden_size = 60;
  odd.without_keys = {"qwen3.attention.key_length", "qwen3.attention.value_length"};  // then 60 / 4 = 15
  expect_refused(odd, {"\"qwen3.attention.key_length\"", "even", "found no such key", "= 15 is taken"});

  expect_refused(with("qwen3.rope.dimension_count", std::uint32_t{16}),
                 {"qwen3.rope.dimension_count", "found 16", "expected 32", "whole heads"});
  EXPECT_EQ(config_of(with("qwen3.rope.dimension_count", std::uint32_t{32})).head_dim, 32U);
}

TEST(Config, TakesAllHeadsForKeysIfTheFileDoesNotSay) {
  RandomModel model;
  model.kv_heads = model.heads;
  model.without_keys = {"qwen3.attention.head_count_kv"};
  EXPECT_EQ(config_of(model).kv_heads, model.heads);
}

TEST(Config, RefusesEpsilonAndBaseThatMakeNoSense) {
  const std::string epsilon = "qwen3.attention.layer_norm_rms_epsilon";
  expect_refused(with(epsilon, -1e-6F), {epsilon});
  expect_refused(with(epsilon, 0.0F), {epsilon, "above 0"});
  expect_refused(with(epsilon, 1.0F), {epsilon});
  expect_refused(with(epsilon, std::numeric_limits<float>::quiet_NaN()), {epsilon});
  expect_refused(with(epsilon, std::string("1e-6")), {epsilon});
  const std::string base = "qwen3.rope.freq_base";
  for (const float value : {0.0F, -1.0F, 1.0F, std::numeric_limits<float>::infinity()}) {
    expect_refused(with(base, value), {base});
  }
  expect_refused(with(base, 1e300), {base});  // beyond float
}

TEST(Config, TellsBothSidesOfADisagreementWithTheEmbedding) {
  expect_refused(with("qwen3.embedding_length", std::uint32_t{128}),
                 {"tensor \"token_embd.weight\": shape: expected rows of 128",
                  "qwen3.embedding_length = 128 (at byte ", "found rows of 64"});
  expect_refused(
      with("qwen3.vocab_size", std::uint32_t{101}),
      {"qwen3.vocab_size", "expected 100 (the rows of tensor \"token_embd.weight\")", "found 101"});
  EXPECT_EQ(config_of(with("qwen3.vocab_size", std::uint32_t{100})).vocab_size, 100U);
}

TEST(Config, TheTokenizersListMayBeShorterThanTheEmbeddingNeverLonger) {
  const auto tokens = [](std::size_t count) {
    gguf::Array list;
    list.element_type = gguf::ValueType::string;
    list.elements = std::vector<std::string>(count, "x");
    return list;
  };
  EXPECT_EQ(config_of(with("tokenizer.ggml.tokens", tokens(70))).vocab_size, 100U);
  EXPECT_EQ(config_of(with("tokenizer.ggml.tokens", tokens(100))).vocab_size, 100U);
  expect_refused(with("tokenizer.ggml.tokens", tokens(101)),
                 {"\"tokenizer.ggml.tokens\"", "at most 100 tokens", "at byte ", "found 101"});
}

TEST(Config, NeverIgnoresSettingsOfOtherArchitectures) {
  for (const char* key : {"qwen3.expert_count", "qwen3.attention.clamp_kqv", "qwen3.attention.scale",
                          "qwen3.logit_scale", "qwen3.final_logit_softcapping", "qwen3.embedding_scale"}) {
    expect_refused(with(key, 7.0F), {key, "at byte ", "found 7"});
  }
  expect_refused(with("qwen3.attention.causal", false), {"qwen3.attention.causal"});
  expect_refused(with("qwen3.attention.sliding_window", std::uint32_t{512}),
                 {"qwen3.attention.sliding_window", "found 512", "4096"});
  // Values that change nothing are fine.
  EXPECT_EQ(config_of(with("qwen3.attention.causal", true)).layers, 2U);
  EXPECT_EQ(config_of(with("qwen3.expert_count", std::uint32_t{0})).layers, 2U);
  EXPECT_EQ(config_of(with("qwen3.attention.sliding_window", std::uint32_t{4096})).layers, 2U);
}

TEST(Config, ReportsKeysThatItDoesNotUse) {
  EXPECT_EQ(test::warnings(RandomModel{}), "");
  const auto text = test::warnings(with("qwen3.pooling_type", std::uint32_t{3}));
  EXPECT_THAT(text, testing::HasSubstr("\"qwen3.pooling_type\""));
  EXPECT_THAT(text, testing::HasSubstr("1 unknown metadata key is not used"));
  EXPECT_EQ(test::warnings(with("other.pooling_type", std::uint32_t{3})), "");
}

}  // namespace
}  // namespace inferno
