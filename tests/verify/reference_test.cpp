// The reference that `verify` judges by, itself judged by goldens and by the tests' own forward pass.

#include "verify/reference.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <thread>  // reference_logits starts threads: ThreadSanitizer should see it

#include "support/random_model.hpp"
#include "support/reference_forward.hpp"
#include "verify/compare.hpp"
#include "verify/goldens.hpp"

namespace inferno::verify {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(INFERNO_TEST_DATA) / "golden";

class Goldens : public ::testing::TestWithParam<std::string> {};

TEST_P(Goldens, ReferenceEqualsThem) {
  const LoadedModel model(kGolden / (GetParam() + ".gguf"));
  const auto vocab_size = model.config.vocab_size;
  for (const auto& golden : read_goldens(kGolden / (GetParam() + ".json"), vocab_size)) {
    ASSERT_EQ(golden.logits.size(), vocab_size);
    const auto logits = reference_logits(model, golden.ids, {}, 2);
    ASSERT_EQ(logits.size(), golden.ids.size() * vocab_size);
    double difference = 0;
    for (std::size_t i = 0; i < vocab_size; ++i) {
      difference = std::max(difference, std::abs(logits[logits.size() - vocab_size + i] - golden.logits[i]));
    }
    // The goldens have seven digits, and their rotary angles float32 frequencies.
    EXPECT_LT(difference, 3e-6 * largest_magnitude(golden.logits)) << golden.ids.size() << " ids";
  }
}

INSTANTIATE_TEST_SUITE_P(Odd, Goldens, ::testing::Values("odd-group3-f32", "odd-mqa-q8_0", "odd-tied-f16"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

void expect_equals_tests_forward(const test::RandomModel& random) {
  const test::TemporaryFile file(random);
  const LoadedModel model(file.path());
  const auto ids = test::random_ids(40, random.vocab_size, 7);
  const auto logits = reference_logits(model, ids, {}, 3);
  const auto expected = test::ReferenceForward(model.file).logits(ids);
  for (std::size_t position = 0; position < ids.size(); ++position) {
    for (std::size_t i = 0; i < random.vocab_size; ++i) {
      ASSERT_NEAR(logits[position * random.vocab_size + i], expected[position][i], 1e-9)
          << "position " << position << ", id " << i;
    }
  }
}

TEST(Reference, EveryFormat) {
  for (const auto& format : quant::formats()) {
    SCOPED_TRACE(format.name);
    test::RandomModel random;
    random.matrix_format = random.embedding_format = format.type;
    expect_equals_tests_forward(random);
  }
}

TEST(Reference, LinearAndYarnScaling) {
  for (const std::string type : {"linear", "yarn"}) {
    SCOPED_TRACE(type);
    test::RandomModel random;
    random.metadata = {{"qwen3.rope.scaling.type", type},
                       {"qwen3.rope.scaling.factor", 4.0F},
                       {"qwen3.rope.scaling.original_context_length", std::uint32_t{1024}}};
    expect_equals_tests_forward(random);
  }
}

TEST(Reference, ThreadsChangeNothing) {
  const LoadedModel model(kGolden / "odd-mqa-q8_0.gguf");
  const std::vector<std::int32_t> ids = {1, 2, 3};
  const auto one = reference_logits(model, ids, {}, 1);
  EXPECT_EQ(reference_logits(model, ids, {}, 2), one);
  EXPECT_EQ(reference_logits(model, ids, {}, 7), one);
  EXPECT_EQ(reference_logits(model, ids, {}, 1000), one);  // more than some matrices have rows
}

TEST(Reference, RoundingsCostWhatTheyShould) {
  const LoadedModel model(kGolden / "odd-mqa-q8_0.gguf");
  const auto ids = test::random_ids(64, model.config.vocab_size, 3);
  const auto exact = reference_logits(model, ids, {}, 2);
  const auto distance = [&](Roundings roundings) {
    const auto rounded = reference_logits(model, ids, roundings, 2);
    double largest = 0;
    for (std::size_t i = 0; i < exact.size(); ++i)
      largest = std::max(largest, std::abs(rounded[i] - exact[i]));
    return largest / largest_magnitude(exact);
  };
  const auto activations = distance({.activations = true});
  const auto attention = distance({.queries = true, .keys = true, .values = true});
  // Half a step of 1 / 127 in each value, over a few layers: percents, neither nothing nor everything.
  for (const auto cost : {activations, attention}) {
    EXPECT_GT(cost, 1e-3);
    EXPECT_LT(cost, 0.06);
  }
  // Float matrices do not round what they multiply.
  const LoadedModel floats(kGolden / "odd-group3-f32.gguf");
  const std::vector<std::int32_t> few = {5, 6};
  EXPECT_EQ(reference_logits(floats, few, {.activations = true}, 1), reference_logits(floats, few, {}, 1));
}

}  // namespace
}  // namespace inferno::verify
