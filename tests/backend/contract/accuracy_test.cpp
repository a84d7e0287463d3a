// How far the contract's arithmetic is from float64, on the models whose float64 logits are known.

#include <algorithm>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../runner.hpp"

namespace inferno::test {
namespace {

struct Known {
  const char* model;
  double bound;  ///< of the largest logit's magnitude
};

class Accuracy : public testing::TestWithParam<Known> {};

TEST_P(Accuracy, IsWithinTheStatedShareOfTheLargestLogit) {
  const std::string name = GetParam().model;
  const LoadedModel model(golden(name + ".gguf"));
  std::ifstream file(golden(name + ".json"));
  const auto json = nlohmann::json::parse(file);
  for (const auto& known : json["cases"]) {
    const auto ids = known["ids"].get<std::vector<std::int32_t>>();
    const auto expected = known["last_logits"].get<std::vector<double>>();
    Runner runner(model, {.backend = "pool"});
    const auto logits = runner.last_logits(ids, 64);
    const auto error = relative_error<double>(expected, logits);
    EXPECT_LE(error, GetParam().bound) << ids.size() << " tokens";
    RecordProperty("error_" + std::to_string(ids.size()), std::to_string(error));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Accuracy,
                         testing::Values(Known{"odd-mqa-q8_0", 0.06}, Known{"odd-tied-f16", 0.06},
                                         Known{"odd-group3-f32", 0.06}),
                         [](const auto& tested) {
                           std::string name = tested.param.model;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Accuracy, OfTheShippedModelIsWithin12Thousandths) {
  const LoadedModel model(shipped_model());
  std::ifstream file(shipped_golden());
  const auto prompts = nlohmann::json::parse(file)["prompts"];
  for (const auto& prompt : prompts) {
    const auto ids = prompt["ids"].get<std::vector<std::int32_t>>();
    const auto top_ids = prompt["top20_ids"].get<std::vector<std::size_t>>();
    const auto top_logits = prompt["top20_logits"].get<std::vector<double>>();
    Runner runner(model, {.backend = "pool"});
    const auto logits = runner.last_logits(ids, 64);
    for (std::size_t i = 0; i < top_ids.size(); ++i) {
      EXPECT_NEAR(logits[top_ids[i]], top_logits[i], 0.012 * top_logits[0]) << prompt["text"];
    }
  }
}

}  // namespace
}  // namespace inferno::test
