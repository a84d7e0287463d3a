#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/runner.hpp"
#include "support/random_model.hpp"
#include "support/reference_forward.hpp"

namespace inferno {
namespace {

using test::RandomModel;
using test::ReferenceForward;
using test::relative_error;
using test::Runner;
using test::TemporaryFile;

// Largest error over all positions, relative to the largest logit. Measured: below 2e-6.
constexpr double kBound = 1e-5;

struct Shape {
  std::uint32_t hidden_size, heads, kv_heads, head_dim;
};

void expect_reference(const RandomModel& model, std::size_t tokens) {
  const TemporaryFile file(model);
  const LoadedModel loaded(file.path());
  const auto ids = test::random_ids(tokens, model.vocab_size, model.seed);
  const auto expected = ReferenceForward(loaded.file).logits(ids);
  const auto actual = Runner(loaded).logits(ids, ids.size());
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    largest = std::max(largest, relative_error<double>(expected[t], actual[t]));
  }
  EXPECT_LT(largest, kBound);
  testing::Test::RecordProperty("largest_error", fmt::format("{}", largest));
  EXPECT_EQ(Runner(loaded).logits(ids, 1), actual);
}

class QueryWidth : public testing::TestWithParam<Shape> {};

TEST_P(QueryWidth, IsNotTheHiddenSize) {
  const Shape shape = GetParam();
  RandomModel model;
  model.hidden_size = shape.hidden_size;
  model.heads = shape.heads;
  model.kv_heads = shape.kv_heads;
  model.head_dim = shape.head_dim;
  const bool large = shape.hidden_size > 1000;
  model.layers = large ? 1 : 3;
  if (large) model.matrix_format = quant::TensorType::q8_0;
  expect_reference(model, large ? 3 : 40);
}

INSTANTIATE_TEST_SUITE_P(Shapes, QueryWidth,
                         testing::Values(Shape{64, 4, 2, 32},      // wider than the hidden size
                                         Shape{96, 5, 1, 32},      // one key head for all
                                         Shape{160, 2, 2, 32},     // narrower, as many key heads as heads
                                         Shape{64, 16, 8, 8},      // Qwen3-0.6B's ratios
                                         Shape{160, 32, 8, 8},     // 4B's
                                         Shape{320, 64, 8, 8},     // 32B's
                                         Shape{1024, 16, 8, 128},  // and their true widths
                                         Shape{2560, 32, 8, 128}, Shape{5120, 64, 8, 128}),
                         [](const auto& test) {
                           const Shape& s = test.param;
                           return fmt::format("h{}_{}x{}_{}", s.hidden_size, s.heads, s.kv_heads, s.head_dim);
                         });

TEST(Shapes, SizesThatAreMultiplesOfNothing) {
  RandomModel model;
  model.hidden_size = 37;
  model.ffn_size = 53;
  model.heads = 6;
  model.kv_heads = 2;
  model.head_dim = 14;
  model.vocab_size = 61;
  model.tied_head = false;
  expect_reference(model, 70);
}

TEST(Shapes, TheSmallestModel) {
  RandomModel model;
  model.layers = 1;
  model.hidden_size = 1;
  model.ffn_size = 1;
  model.heads = 1;
  model.kv_heads = 1;
  model.head_dim = 2;
  model.vocab_size = 2;
  expect_reference(model, 5);
}

TEST(Shapes, HeadDimensionWithoutKeyLength) {
  RandomModel model;
  model.head_dim = 16;
  model.without_keys = {"qwen3.attention.key_length", "qwen3.attention.value_length"};
  expect_reference(model, 20);
}

TEST(Shapes, AFormatPerTensor) {
  RandomModel model;
  model.hidden_size = 128;
  model.ffn_size = 160;
  model.tied_head = false;
  model.formats = {{"token_embd.weight", quant::TensorType::q5_0},
                   {"blk.0.attn_q.weight", quant::TensorType::q4_0},
                   {"blk.0.attn_k.weight", quant::TensorType::bf16},
                   {"blk.0.attn_v.weight", quant::TensorType::q8_0},
                   {"blk.0.attn_output.weight", quant::TensorType::f16},
                   {"blk.1.ffn_down.weight", quant::TensorType::q5_0},
                   {"blk.1.ffn_norm.weight", quant::TensorType::f16},
                   {"output.weight", quant::TensorType::q4_0}};
  expect_reference(model, 20);
}

TEST(Shapes, OtherEpsilonAndBaseAreUsed) {
  RandomModel model;
  model.rms_epsilon = 0.25F;
  model.rope_base = 100.0F;
  expect_reference(model, 40);
}

}  // namespace
}  // namespace inferno
