// Bytes and operations on shapes small enough, or known well enough, to count by hand.

#include "bench/counts.hpp"

#include <gtest/gtest.h>

#include "quant/format.hpp"

namespace inferno::bench {
namespace {

using quant::TensorType;

Matrix matrix(TensorType type, std::uint32_t rows, std::uint32_t columns) {
  return {&quant::format_of(type), rows, columns, nullptr, {}};
}

struct Shape {
  std::uint32_t layers, hidden, ffn, query, kv, head_dim, vocab;
};

ModelWeights weights_of(const Shape& shape, TensorType type, TensorType head_type) {
  ModelWeights weights;
  weights.embedding = matrix(type, shape.vocab, shape.hidden);
  weights.lm_head = matrix(head_type, shape.vocab, shape.hidden);
  weights.final_norm.resize(shape.hidden);
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    auto& layer = weights.layers.emplace_back();
    layer.attention_norm.resize(shape.hidden);
    layer.ffn_norm.resize(shape.hidden);
    layer.query_norm.resize(shape.head_dim);
    layer.key_norm.resize(shape.head_dim);
    layer.query = matrix(type, shape.query, shape.hidden);
    layer.key = matrix(type, shape.kv, shape.hidden);
    layer.value = matrix(type, shape.kv, shape.hidden);
    layer.attention_output = matrix(type, shape.hidden, shape.query);
    layer.gate = matrix(type, shape.ffn, shape.hidden);
    layer.up = matrix(type, shape.ffn, shape.hidden);
    layer.down = matrix(type, shape.hidden, shape.ffn);
  }
  return weights;
}

constexpr Shape kQwen3_0_6B = {28, 1024, 3072, 2048, 1024, 128, 151936};

TEST(WeightBytes, Qwen3_0_6B_Q8_0_ByHand) {
  const auto weights = weights_of(kQwen3_0_6B, TensorType::q8_0, TensorType::q8_0);
  // A layer: Q 2048 x 1024, K and V 1024 x 1024, O 1024 x 2048, gate, up and down 3072 x 1024:
  // 15,728,640 weights of 34 / 32 bytes, and norms of 2 x 1024 + 2 x 128 floats.
  constexpr std::uint64_t kLayer = 16'711'680 + 9'216;
  constexpr std::uint64_t kHead = 165'306'368;  // 151936 x 1024 x 34 / 32
  constexpr std::uint64_t kTied = 28 * kLayer + kHead + 4'096;
  static_assert(kTied == 633'495'552);
  EXPECT_EQ(weight_bytes_per_step(weights, true, 1), kTied);
  // Tied: every row's embedding is part of the head that is read anyway.
  EXPECT_EQ(weight_bytes_per_step(weights, true, 8), kTied);
  // Separate: one row of the embedding, 1024 x 34 / 32 bytes, for each row of the batch.
  EXPECT_EQ(weight_bytes_per_step(weights, false, 1), kTied + 1'088);
  EXPECT_EQ(weight_bytes_per_step(weights, false, 8), kTied + 8 * 1'088);
}

TEST(WeightBytes, MixedFormatsCountAsStored) {
  const Shape shape = {1, 32, 64, 32, 32, 32, 100};
  const auto weights = weights_of(shape, TensorType::q4_0, TensorType::f16);
  // 4 square matrices of 32 x 32 and 3 of 32 x 64: 10,240 weights in blocks of 32 of 18 bytes.
  EXPECT_EQ(weight_bytes_per_step(weights, false, 2),
            10'240 / 32 * 18 + 4 * 32 * 4 + 100 * 32 * 2 + 32 * 4 + 2 * 18);
}

TEST(PrefillOperations, TwoForEachWeightAndToken) {
  const auto weights = weights_of(kQwen3_0_6B, TensorType::q8_0, TensorType::q8_0);
  const double layers = 2.0 * 28 * 15'728'640;
  const double head = 2.0 * 151'936 * 1024;
  const auto contract = prefill_operations(weights, true, 1, 511);
  EXPECT_DOUBLE_EQ(contract.int8, layers * 511 + head);
  EXPECT_EQ(contract.float32, 0);
  // The head works for the last position of each row only.
  EXPECT_DOUBLE_EQ(prefill_operations(weights, true, 8, 100).int8, layers * 800 + head * 8);
  // Whatever is not contract arithmetic multiplies floats.
  const auto scalar = prefill_operations(weights, false, 1, 511);
  EXPECT_EQ(scalar.int8, 0);
  EXPECT_DOUBLE_EQ(scalar.float32, contract.int8);
}

TEST(PrefillOperations, FloatFormatsAreMultipliedInFloat) {
  const Shape shape = {1, 32, 64, 32, 32, 32, 100};
  const auto operations =
      prefill_operations(weights_of(shape, TensorType::q8_0, TensorType::f16), true, 1, 10);
  EXPECT_DOUBLE_EQ(operations.int8, 2.0 * 10'240 * 10);
  EXPECT_DOUBLE_EQ(operations.float32, 2.0 * 3'200);
}

TEST(PositionsRead, MeanOverTheSteps) {
  EXPECT_EQ(positions_read_per_step(0, 1), 1);  // its own
  EXPECT_EQ(positions_read_per_step(511, 1), 512);
  EXPECT_EQ(positions_read_per_step(10, 4), (11 + 12 + 13 + 14) / 4.0);
  EXPECT_EQ(positions_read_per_step(10, 0), 0);
}

}  // namespace
}  // namespace inferno::bench
