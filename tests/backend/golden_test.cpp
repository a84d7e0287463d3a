#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/runner.hpp"

namespace inferno {
namespace {

using test::golden;
using test::Layout;
using test::relative_error;
using test::Runner;
using test::shipped_golden;

// The promise is 2e-4 of the largest logit; float arithmetic with short sums stays far below it, and a
// regression towards the promise should be seen.
constexpr double kPromise = 2e-4;
constexpr double kMeasured = 1e-5;

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// A one-dimensional float64 array of numpy's format, version 1.
std::vector<double> read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(bytes.find("'descr': '<f8'"), std::string::npos) << path;
  const std::size_t header = 10 + static_cast<unsigned char>(bytes.at(8)) +
                             std::size_t{256} * static_cast<unsigned char>(bytes.at(9));
  std::vector<double> values((bytes.size() - header) / sizeof(double));
  std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(double));
  return values;
}

class OddShapes : public testing::TestWithParam<const char*> {};

/// F32, F16 and Q8_0; group sizes 3 and 5; tied and separate heads; prompts of 1 to 333 tokens.
TEST_P(OddShapes, LogitsMatchDoublePrecisionHoweverTheyAreComputed) {
  const auto json = read_json(golden(std::string(GetParam()) + ".json"));
  const LoadedModel model(golden(json["model"]));
  double largest = 0;
  for (const auto& golden_case : json["cases"]) {
    const auto ids = golden_case["ids"].get<std::vector<std::int32_t>>();
    const auto expected = golden_case["last_logits"].get<std::vector<double>>();

    const auto whole = Runner(model).last_logits(ids, ids.size());
    const double error = relative_error<double>(expected, whole);
    largest = std::max(largest, error);
    EXPECT_LT(error, kPromise) << ids.size() << " tokens";
    EXPECT_LT(error, kMeasured) << ids.size() << " tokens";

    for (const std::size_t chunk : {std::size_t{1}, std::size_t{16}, std::size_t{512}}) {
      for (const Layout layout : {Layout::contiguous, Layout::scattered}) {
        Runner runner(model, {.layout = layout});
        EXPECT_EQ(runner.last_logits(ids, chunk), whole) << ids.size() << " tokens in chunks of " << chunk;
      }
    }
  }
  RecordProperty("largest_error", fmt::format("{}", largest));
}

INSTANTIATE_TEST_SUITE_P(Golden, OddShapes, testing::Values("odd-group3-f32", "odd-tied-f16", "odd-mqa-q8_0"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Every position of a prompt, not only its last: the goldens' longer prompts hold the shorter ones' logits
/// nowhere, so positions are compared with each other over all ways to reach them.
TEST(Golden, EveryPositionIsTheSameThroughPrefillChunksDecodeAndRecomputation) {
  const LoadedModel model(golden("odd-mqa-q8_0.gguf"));
  const auto ids = read_json(golden("odd-mqa-q8_0.json"))["cases"][3]["ids"].get<std::vector<std::int32_t>>();
  ASSERT_EQ(ids.size(), 64U);
  const auto whole = Runner(model).logits(ids, ids.size());
  ASSERT_EQ(whole.size(), 64U);
  EXPECT_EQ(Runner(model).logits(ids, 1), whole);
  EXPECT_EQ(Runner(model).logits(ids, 16), whole);
  EXPECT_EQ(Runner(model).logits(ids, 13), whole);
  EXPECT_EQ(Runner(model).logits_recomputed(ids), whole);
  for (const std::uint32_t block_size : {1U, 2U, 64U, 256U}) {
    EXPECT_EQ(Runner(model, {.block_size = block_size, .layout = Layout::scattered}).logits(ids, 16), whole);
  }
}

TEST(Tale, LogitsMatchDoublePrecision) {
  const LoadedModel model(test::shipped_model());
  const auto json = read_json(shipped_golden());
  for (std::size_t i = 0; i < 2; ++i) {
    const auto ids = json["prompts"][i]["ids"].get<std::vector<std::int32_t>>();
    const auto expected = read_npy(golden(fmt::format("tale-12m-logits{}.npy", i)));
    const auto whole = Runner(model).last_logits(ids, ids.size());
    const double error = relative_error<double>(expected, whole);
    RecordProperty(fmt::format("error{}", i), fmt::format("{}", error));
    EXPECT_LT(error, kMeasured);
    EXPECT_EQ(Runner(model).last_logits(ids, 1), whole);
  }
}

TEST(Tale, BestTwentyOfEveryPromptMatch) {
  const LoadedModel model(test::shipped_model());
  const auto json = read_json(shipped_golden());
  for (const auto& prompt : json["prompts"]) {
    const auto logits = Runner(model).last_logits(prompt["ids"].get<std::vector<std::int32_t>>(), 512);
    const auto ids = prompt["top20_ids"].get<std::vector<std::size_t>>();
    const auto expected = prompt["top20_logits"].get<std::vector<double>>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_NEAR(logits.at(ids[i]), expected[i], kPromise * expected[0]) << prompt["text"] << ' ' << i;
    }
  }
}

TEST(Tale, GreedyTranscriptsAreReproduced) {
  const LoadedModel model(test::shipped_model());
  const auto json = read_json(shipped_golden());
  ASSERT_EQ(json["prompts"].size(), 4U);
  for (const auto& prompt : json["prompts"]) {
    const auto ids = prompt["ids"].get<std::vector<std::int32_t>>();
    const auto expected = prompt["greedy_ids"].get<std::vector<std::int32_t>>();
    EXPECT_EQ(Runner(model).greedy(ids, expected.size(), 512), expected) << prompt["text"];
  }
}

}  // namespace
}  // namespace inferno
