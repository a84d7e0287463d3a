#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include <inferno/error.hpp>

#include "sampling/sampler.hpp"

namespace inferno {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kVocab = 100;

std::string refusal(const SamplingSettings& settings) {
  try {
    check_settings(settings, kVocab);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

// Every value is refused by a message that names the setting, and `choose` reports the same one.
template <typename T>
void expect_refused(T SamplingSettings::*setting, std::initializer_list<T> values, const std::string& name) {
  for (const T value : values) {
    SamplingSettings settings;
    settings.*setting = value;
    const std::string message = refusal(settings);
    EXPECT_THAT(message, testing::HasSubstr(name)) << value;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(choose(std::vector<float>(kVocab, 1.0F), settings, TokenHistory(), 0).error, message);
  }
}

template <typename T>
void expect_taken(T SamplingSettings::*setting, std::initializer_list<T> values) {
  for (const T value : values) {
    SamplingSettings settings;
    settings.*setting = value;
    EXPECT_EQ(refusal(settings), "") << value;
  }
}

TEST(Settings, OutOfRangeIsRefusedByName) {
  using S = SamplingSettings;
  expect_refused(&S::temperature, {-1.0F, -1e-9F, kNan, kInfinity, -kInfinity}, "temperature");
  expect_refused(&S::top_k, {-1, std::numeric_limits<std::int32_t>::min()}, "top_k");
  expect_refused(&S::top_p, {-0.01F, 1.01F, kNan, kInfinity}, "top_p");
  expect_refused(&S::min_p, {-0.01F, 1.01F, kNan, kInfinity}, "min_p");
  expect_refused(&S::repetition_penalty,
                 {0.0F, -1.0F, std::numeric_limits<float>::denorm_min(), kNan, kInfinity},
                 "repetition_penalty");
  expect_refused(&S::presence_penalty, {101.0F, -101.0F, kNan, kInfinity, -kInfinity}, "presence_penalty");
  expect_refused(&S::frequency_penalty, {101.0F, -101.0F, kNan, kInfinity, -kInfinity}, "frequency_penalty");
}

TEST(Settings, TheEdgesAreTaken) {
  using S = SamplingSettings;
  expect_taken(&S::temperature, {0.0F, -0.0F, 1e-9F, 1e9F, std::numeric_limits<float>::max()});
  expect_taken(&S::top_k, {0, 1, 1000000000, std::numeric_limits<std::int32_t>::max()});
  expect_taken(&S::top_p, {0.0F, 1.0F});
  expect_taken(&S::min_p, {0.0F, 1.0F});
  expect_taken(&S::repetition_penalty, {std::numeric_limits<float>::min(), 1.25F, 1e9F});
  expect_taken(&S::presence_penalty, {-100.0F, -2.0F, 100.0F});
  expect_taken(&S::frequency_penalty, {-100.0F, -2.0F, 100.0F});
}

TEST(Settings, LogitBiasNamesTheIdAndTheRange) {
  SamplingSettings settings;
  for (const std::int32_t id : {-1, 100, 999999, std::numeric_limits<std::int32_t>::min()}) {
    settings.logit_bias = {{5, 1.0F}, {id, 5.0F}};
    EXPECT_THAT(refusal(settings), testing::HasSubstr(std::to_string(id)));
    EXPECT_THAT(refusal(settings), testing::HasSubstr("within 0 and 99"));
  }
  for (const float bias : {101.0F, -100.5F, kNan, kInfinity, -kInfinity}) {
    settings.logit_bias = {{17, bias}};
    EXPECT_THAT(refusal(settings), testing::HasSubstr("logit_bias of id 17"));
  }
  settings.logit_bias = {{0, -100.0F}, {99, 100.0F}};
  EXPECT_EQ(refusal(settings), "");
}

TEST(History, CountsPromptAndGeneratedApart) {
  TokenHistory history(10);
  history.add_prompt(std::vector<std::int32_t>{3, 3, 9});
  history.add_generated(3);
  history.add_generated(0);
  history.add_generated(0);
  EXPECT_TRUE(history.in_prompt(3));
  EXPECT_FALSE(history.in_prompt(0));
  EXPECT_EQ(history.generated(3), 1U);
  EXPECT_EQ(history.generated(0), 2U);
  EXPECT_EQ(history.generated(9), 0U);
  EXPECT_THAT(history.distinct(), testing::ElementsAre(3, 9, 0));
}

TEST(History, AnIdOutsideTheVocabularyIsRefused) {
  TokenHistory history(10);
  EXPECT_THROW(history.add_generated(10), UsageError);
  EXPECT_THROW(history.add_generated(-1), UsageError);
  EXPECT_THROW(history.add_prompt(std::vector<std::int32_t>{1, 10}), UsageError);
  EXPECT_THROW(TokenHistory().add_generated(0), UsageError);
  EXPECT_FALSE(history.in_prompt(-1));
  EXPECT_EQ(history.generated(1 << 30), 0U);
}

}  // namespace
}  // namespace inferno
