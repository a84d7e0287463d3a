#include <gtest/gtest.h>

#include "backend/registry.hpp"
#include "backend/runner.hpp"
#include "support/random_model.hpp"
#include "support/reference_forward.hpp"

namespace inferno {
namespace {

using test::RandomModel;
using test::Runner;
using test::TemporaryFile;

class Head : public testing::TestWithParam<quant::TensorType> {
 protected:
  RandomModel model() const {
    RandomModel model;
    model.embedding_format = GetParam();
    model.head_format = GetParam();
    return model;
  }
};

TEST_P(Head, TiedEqualsTheSameMatrixTwice) {
  RandomModel tied = model();
  RandomModel twice = model();
  twice.tied_head = false;
  twice.head_copies_embedding = true;
  const TemporaryFile tied_file(tied);
  const TemporaryFile twice_file(twice);
  const LoadedModel tied_model(tied_file.path());
  const LoadedModel twice_model(twice_file.path());
  ASSERT_TRUE(tied_model.config.tied_head);
  ASSERT_FALSE(twice_model.config.tied_head);
  const auto ids = test::random_ids(20, 100, 3);
  EXPECT_EQ(Runner(tied_model).logits(ids, 20), Runner(twice_model).logits(ids, 20));
}

TEST_P(Head, ASeparateHeadIsUsed) {
  RandomModel separate = model();
  separate.tied_head = false;
  const TemporaryFile separate_file(separate);
  const TemporaryFile tied_file(model());
  const LoadedModel separate_model(separate_file.path());
  const LoadedModel tied_model(tied_file.path());
  const auto ids = test::random_ids(20, 100, 3);
  const auto logits = Runner(separate_model).logits(ids, 20);
  EXPECT_NE(logits, Runner(tied_model).logits(ids, 20));
  const auto expected = test::ReferenceForward(separate_model.file).logits(ids);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    EXPECT_LT(test::relative_error<double>(expected[t], logits[t]), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Head,
                         testing::Values(quant::TensorType::f32, quant::TensorType::f16,
                                         quant::TensorType::bf16, quant::TensorType::q8_0),
                         [](const auto& test) { return std::string(quant::format_of(test.param).name); });

/// The executor decodes rows as it uses them: it holds no weights, tied or not.
TEST(HeadMemory, NoSecondCopy) {
  for (const bool tied : {true, false}) {
    RandomModel model;
    model.tied_head = tied;
    const TemporaryFile file(model);
    const LoadedModel loaded(file.path());
    EXPECT_EQ(create_executor("scalar", loaded)->memory_need({}).weight_bytes, 0U);
  }
}

}  // namespace
}  // namespace inferno
