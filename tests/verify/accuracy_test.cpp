// What the arithmetic that all backends share costs against float64, as far as it is promised.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <iostream>
#include <string>
#include <vector>

#include "backend/registry.hpp"
#include "verify/compare.hpp"
#include "verify/goldens.hpp"
#include "verify/probe.hpp"
#include "verify/reference.hpp"

namespace inferno::verify {
namespace {

struct Case {
  std::string name;
  std::filesystem::path model, goldens;
  double largest_error;  ///< of any logit, as a share of the largest
  double mean_divergence;
};

/// A text of a golden: the prompt and what float64 says after it.
Ids text_of(const GoldenCase& golden) {
  auto ids = golden.ids;
  ids.insert(ids.end(), golden.greedy_ids.begin(), golden.greedy_ids.end());
  return ids;
}

class Accuracy : public ::testing::TestWithParam<Case> {};

TEST_P(Accuracy, StaysWithinWhatIsPromised) {
  const auto& tested = GetParam();
  const LoadedModel model(tested.model);
  const auto vocab_size = model.config.vocab_size;
  const auto executor = create_executor("simd", model);
  struct Rule {
    const char* name;
    Roundings roundings;
    double divergence = 0;
  };
  std::vector<Rule> rules = {
      {"int8 activations", {.activations = true}},
      {"int8 queries", {.queries = true}},
      {"int8 keys", {.keys = true}},
      {"int8 values", {.values = true}},
      {"15-bit attention weights", {.attention_weights = true}},
      {"all of these in double precision",
       {.activations = true, .queries = true, .keys = true, .values = true, .attention_weights = true}}};
  double error = 0, activations_error = 0, kl = 0, positions = 0;
  for (const auto& golden : read_goldens(tested.goldens, vocab_size)) {
    const auto ids = text_of(golden);
    const auto count = static_cast<double>(ids.size());
    const auto exact = reference_logits(model, ids, {}, 2);
    const double largest = largest_magnitude(exact);
    for (auto& rule : rules) {
      const auto rounded = reference_logits(model, ids, rule.roundings, 2);
      rule.divergence += divergence(exact, rounded, vocab_size).mean * count;
      if (&rule != rules.data()) continue;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        activations_error = std::max(activations_error, std::abs(rounded[i] - exact[i]) / largest);
      }
    }
    Probe probe(*executor, static_cast<std::uint32_t>(ids.size()), 256, [] {});
    const auto logits = probe.logits(ids, static_cast<std::uint32_t>(ids.size()));
    error = std::max(error, compare(logits, exact).max_abs / largest);
    kl += divergence(exact, logits, vocab_size).mean * count;
    positions += count;
  }
  ASSERT_GT(positions, 0);
  kl /= positions;
  std::cout << tested.name << ": largest error " << error
            << " of the largest logit (int8 activations alone: " << activations_error << "), mean KL " << kl
            << " over " << positions << " positions. By rule:\n";
  for (const auto& rule : rules)
    std::cout << "  " << rule.name << ": " << rule.divergence / positions << "\n";
  EXPECT_LE(error, tested.largest_error);
  EXPECT_LE(kl, tested.mean_divergence);
}

const std::filesystem::path kModels = INFERNO_MODELS;
const std::filesystem::path kGolden = std::filesystem::path(INFERNO_TEST_DATA) / "golden";

Case odd(const std::string& name) {
  // Weights drawn at random average nothing out: no promise is made of their divergence.
  return {name, kGolden / (name + ".gguf"), kGolden / (name + ".json"), 0.06, 1.0};
}

INSTANTIATE_TEST_SUITE_P(Models, Accuracy,
                         ::testing::Values(Case{"tale-12m", kModels / "tale-12m-q8_0.gguf",
                                                kModels / "tale-12m-q8_0.golden.json", 0.012, 2.5e-4},
                                           odd("odd-group3-f32"), odd("odd-mqa-q8_0"), odd("odd-tied-f16")),
                         [](const auto& tested) {
                           auto name = tested.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Divergence, OfEqualLogitsIsZeroAndOfOthersWorkedOutByHand) {
  const std::vector<double> even{0, 0, 1, 1};
  const std::vector<float> same{5, 5, 3, 3};  // a constant changes no distribution
  EXPECT_NEAR(divergence(even, same, 2).max, 0, 1e-15);
  // p = (1/2, 1/2), q = (3/4, 1/4): ln(2/3) / 2 + ln(2) / 2.
  const std::vector<double> odds{std::log(3.0), 0, 0, 0};
  const auto found = divergence(even, odds, 2);
  EXPECT_NEAR(found.max, 0.5 * std::log(4.0 / 3.0), 1e-15);
  EXPECT_NEAR(found.mean, 0.25 * std::log(4.0 / 3.0), 1e-15);
  EXPECT_THROW(divergence(even, std::vector<float>(3), 2), Error);
}

}  // namespace
}  // namespace inferno::verify
