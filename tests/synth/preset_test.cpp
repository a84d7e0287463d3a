#include "synth/preset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <inferno/error.hpp>

namespace inferno {
namespace {

std::uint64_t parameters(const ModelConfig& c) {
  const std::uint64_t d = c.hidden_size;
  const std::uint64_t table = c.vocab_size * d;
  const std::uint64_t layer =
      d * (2 * c.query_width() + 2 * c.kv_width() + 3 * c.ffn_size) + 2 * d + 2 * c.head_dim;
  return table * (c.tied_head ? 1 : 2) + d + c.layers * layer;
}

// The published models' parameter counts, to the last one: no size can be off without changing them.
TEST(Preset, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters(find_preset("0.6b").config), 596'049'920U);
  EXPECT_EQ(parameters(find_preset("1.7b").config), 1'720'574'976U);
  EXPECT_EQ(parameters(find_preset("4b").config), 4'022'468'096U);
  EXPECT_EQ(parameters(find_preset("8b").config), 8'190'735'360U);
  EXPECT_EQ(parameters(find_preset("14b").config), 14'768'307'200U);
  EXPECT_EQ(parameters(find_preset("32b").config), 32'762'123'264U);
}

TEST(Preset, Qwen3SharesWhatItShares) {
  for (const auto name : {"0.6b", "1.7b", "4b", "8b", "14b", "32b"}) {
    const ModelConfig& config = find_preset(name).config;
    EXPECT_EQ(config.vocab_size, 151936U);
    EXPECT_EQ(config.context_length, 40960U);
    EXPECT_EQ(config.head_dim, 128U);
    EXPECT_EQ(config.kv_heads, 8U);
    EXPECT_EQ(config.rope_base, 1e6F);
    EXPECT_EQ(config.rms_epsilon, 1e-6F);
  }
  const ModelConfig& small = find_preset("0.6b").config;
  EXPECT_EQ(18 * small.layers + 3, 507U) << "the stages of a decode step that a trace shows";
}

TEST(Preset, TaleIsTheShippedShapeWithMoreContext) {
  const ModelConfig& tale = find_preset("tale").config;
  EXPECT_EQ(parameters(tale), 11'934'208U);
  EXPECT_EQ(tale.context_length, 8192U);
  EXPECT_EQ(tale.vocab_size, 8192U);
}

TEST(Preset, NamesAreFoundInAnyCaseAndOthersRefused) {
  EXPECT_EQ(find_preset("14B").name, "14b");
  for (const auto name : {"", "0.6", "0.6bb", "70b"}) {
    try {
      find_preset(name);
      FAIL() << name;
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("tiny, tale, 0.6b, 1.7b, 4b, 8b, 14b, 32b"));
    }
  }
}

}  // namespace
}  // namespace inferno
