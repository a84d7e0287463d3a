#include <cmath>
#include <gtest/gtest.h>
#include <limits>

#include "gguf/reader.hpp"
#include "model/config.hpp"
#include "model/refusal.hpp"

namespace inferno {
namespace {

using test::expect_refused;
using test::RandomModel;
using test::TemporaryFile;

RandomModel with(gguf::Metadata metadata) {
  RandomModel model;
  model.metadata = std::move(metadata);
  return model;
}

RopeScaling scaling_of(gguf::Metadata metadata) {
  const TemporaryFile file(with(std::move(metadata)));
  return read_config(gguf::File::open(file.path())).rope_scaling;
}

const std::string kType = "qwen3.rope.scaling.type";
const std::string kFactor = "qwen3.rope.scaling.factor";
const std::string kOriginal = "qwen3.rope.scaling.original_context_length";

gguf::Metadata yarn(gguf::Metadata more = {}) {
  gguf::Metadata all = {{kType, std::string("yarn")}, {kFactor, 4.0F}, {kOriginal, std::uint32_t{32768}}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(RopeMetadata, ReadsNoneLinearAndYarn) {
  EXPECT_EQ(scaling_of({}).type, RopeScaling::Type::none);
  EXPECT_EQ(scaling_of({{kType, std::string("none")}}).type, RopeScaling::Type::none);

  const auto linear = scaling_of({{kType, std::string("linear")}, {kFactor, 2.5F}});
  EXPECT_EQ(linear.type, RopeScaling::Type::linear);
  EXPECT_EQ(linear.factor, 2.5F);

  const auto scaling = scaling_of(yarn());
  EXPECT_EQ(scaling.type, RopeScaling::Type::yarn);
  EXPECT_EQ(scaling.factor, 4.0F);
  EXPECT_EQ(scaling.original_context, 32768U);
  EXPECT_EQ(scaling.attention_factor, 0.0F);  // YaRN's own
  EXPECT_EQ(scaling.beta_fast, 32.0F);
  EXPECT_EQ(scaling.beta_slow, 1.0F);
}

TEST(RopeMetadata, ReadsYarnsOtherSettings) {
  const auto scaling = scaling_of(yarn({{"qwen3.rope.scaling.yarn_beta_fast", 16.0F},
                                        {"qwen3.rope.scaling.yarn_beta_slow", 2.0F},
                                        {"qwen3.rope.scaling.yarn_ext_factor", 1.0F},
                                        {"qwen3.rope.scaling.yarn_log_multiplier", 0.0F},
                                        {"qwen3.rope.scaling.finetuned", true}}));
  EXPECT_EQ(scaling.beta_fast, 16.0F);
  EXPECT_EQ(scaling.beta_slow, 2.0F);
}

TEST(RopeMetadata, AttentionFactors) {
  const float own = 0.1F * std::log(4.0F) + 1.0F;
  EXPECT_EQ(scaling_of(yarn({{"qwen3.rope.scaling.yarn_attn_factor", 1.25F}})).attention_factor, 1.25F);
  EXPECT_FLOAT_EQ(scaling_of(yarn({{"qwen3.rope.scaling.attn_factor", 1.5F}})).attention_factor, 1.5F * own);
  EXPECT_FLOAT_EQ(scaling_of(yarn({{"qwen3.rope.scaling.attn_factor", 1.5F},
                                   {"qwen3.rope.scaling.yarn_attn_factor", 1.25F}}))
                      .attention_factor,
                  1.5F * 1.25F);
  EXPECT_EQ(
      scaling_of({{kType, std::string("linear")}, {kFactor, 2.0F}, {"qwen3.rope.scaling.attn_factor", 1.5F}})
          .attention_factor,
      1.5F);
  EXPECT_EQ(scaling_of(yarn({{"qwen3.rope.scaling.attn_factor", 1.0F}})).attention_factor, 0.0F);
}

TEST(RopeMetadata, AFactorWithoutATypeIsLinear) {
  const auto scaling = scaling_of({{kFactor, 4.0F}});
  EXPECT_EQ(scaling.type, RopeScaling::Type::linear);
  EXPECT_EQ(scaling.factor, 4.0F);
}

TEST(RopeMetadata, HonoursTheOlderNameOfTheFactor) {
  const auto scaling = scaling_of({{"qwen3.rope.scale_linear", 4.0F}});
  EXPECT_EQ(scaling.type, RopeScaling::Type::linear);
  EXPECT_EQ(scaling.factor, 4.0F);
  EXPECT_EQ(scaling_of({{"qwen3.rope.scale_linear", 4.0F}, {kFactor, 4.0F}}).factor, 4.0F);
  expect_refused(with({{"qwen3.rope.scale_linear", 4.0F}, {kFactor, 2.0F}}),
                 {"qwen3.rope.scale_linear = 4", "qwen3.rope.scaling.factor\": expected 4", "found 2"});
}

TEST(RopeMetadata, TakesTheContextLengthIfYarnDoesNotNameTheOriginal) {
  const auto scaling = scaling_of({{kType, std::string("yarn")}, {kFactor, 4.0F}});
  EXPECT_EQ(scaling.original_context, 4096U);
  EXPECT_THAT(test::warnings(with({{kType, std::string("yarn")}, {kFactor, 4.0F}})),
              testing::AllOf(testing::HasSubstr(kOriginal), testing::HasSubstr("4096")));
}

TEST(RopeMetadata, AMissingBaseIsTheFormatsWithAWarning) {
  RandomModel model;
  model.without_keys = {"qwen3.rope.freq_base"};
  const TemporaryFile file(model);
  EXPECT_EQ(read_config(gguf::File::open(file.path())).rope_base, 10000.0F);
  EXPECT_THAT(test::warnings(model), testing::HasSubstr("qwen3.rope.freq_base"));
}

TEST(RopeMetadata, RefusesOtherTypesByName) {
  for (const char* type : {"foo", "longrope", "dynamic", "llama3", "YARN", ""}) {
    expect_refused(with({{kType, std::string(type)}, {kFactor, 4.0F}}),
                   {kType, '"' + std::string(type) + '"', "none, linear and yarn"});
  }
  expect_refused(with({{kType, std::uint32_t{2}}}), {kType, "expected a string"});
}

TEST(RopeMetadata, RefusesContradictions) {
  expect_refused(with({{kType, std::string("none")}, {kFactor, 4.0F}}), {kType, "the scaling factor is 4"});
  expect_refused(with({{kType, std::string("yarn")}}), {kFactor, "found no such key"});
  expect_refused(with({{kType, std::string("linear")}}), {kFactor, "found no such key"});
  expect_refused(
      with(yarn({{"qwen3.rope.scaling.yarn_beta_fast", 1.0F}, {"qwen3.rope.scaling.yarn_beta_slow", 2.0F}})),
      {"qwen3.rope.scaling.yarn_beta_fast", "found 1",
       "at least 2, which is qwen3.rope.scaling.yarn_beta_slow"});
  // The other one is the format's default then, and not to be found in the file.
  expect_refused(with(yarn({{"qwen3.rope.scaling.yarn_beta_slow", 64.0F}})),
                 {"\"qwen3.rope.scaling.yarn_beta_slow\"", "at most 32", "at byte ", "found 64"});
  expect_refused(with({{"qwen3.rope.scaling.yarn_attn_factor", 1.25F}}),
                 {"qwen3.rope.scaling.yarn_attn_factor", "not yarn"});
}

TEST(RopeMetadata, RefusesFactorsThatMakeNoSense) {
  for (const float factor :
       {0.0F, -4.0F, 0.5F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    expect_refused(with({{kType, std::string("yarn")}, {kFactor, factor}}), {kFactor});
    expect_refused(with({{kFactor, factor}}), {kFactor});
  }
  expect_refused(with(yarn({{"qwen3.rope.scaling.yarn_beta_slow", 0.0F}})),
                 {"\"qwen3.rope.scaling.yarn_beta_slow\"", "found 0"});
  expect_refused(with({{kType, std::string("yarn")}, {kFactor, 4.0F}, {kOriginal, std::uint32_t{0}}}),
                 {kOriginal, "found 0"});
}

TEST(RopeMetadata, NeverIgnoresAKeyItDoesNotKnow) {
  expect_refused(with({{"qwen3.rope.scaling.alpha", 1000.0F}}), {"qwen3.rope.scaling.alpha", "1000"});
  expect_refused(with({{"qwen3.rope.dimension_sections", std::uint32_t{3}}}),
                 {"qwen3.rope.dimension_sections"});
  expect_refused(with(yarn({{"qwen3.rope.scaling.yarn_ext_factor", 0.5F}})),
                 {"qwen3.rope.scaling.yarn_ext_factor", "found 0.5", "expected 1"});
  expect_refused(with(yarn({{"qwen3.rope.scaling.yarn_log_multiplier", 0.1F}})),
                 {"qwen3.rope.scaling.yarn_log_multiplier"});
}

}  // namespace
}  // namespace inferno
