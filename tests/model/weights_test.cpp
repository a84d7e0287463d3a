#include "model/weights.hpp"

#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>

#include "model/refusal.hpp"

namespace inferno {
namespace {

using test::expect_refused;
using test::RandomModel;
using test::refusal;
using test::TemporaryFile;

TEST(Weights, BindsEveryTensorWithItsShape) {
  RandomModel model;
  model.hidden_size = 96;
  model.heads = 5;
  model.kv_heads = 1;
  model.tied_head = false;
  const TemporaryFile file(model);
  const LoadedModel loaded(file.path());
  const auto shape = [](const Matrix& matrix) { return std::pair(matrix.rows, matrix.columns); };
  using Shape = std::pair<std::uint32_t, std::uint32_t>;
  ASSERT_EQ(loaded.weights.layers.size(), 2U);
  for (const LayerWeights& layer : loaded.weights.layers) {
    EXPECT_EQ(layer.attention_norm.size(), 96U);
    EXPECT_EQ(shape(layer.query), Shape(160, 96));
    EXPECT_EQ(shape(layer.key), Shape(32, 96));
    EXPECT_EQ(shape(layer.value), Shape(32, 96));
    EXPECT_EQ(layer.query_norm.size(), 32U);
    EXPECT_EQ(layer.key_norm.size(), 32U);
    EXPECT_EQ(shape(layer.attention_output), Shape(96, 160));
    EXPECT_EQ(layer.ffn_norm.size(), 96U);
    EXPECT_EQ(shape(layer.gate), Shape(96, 96));
    EXPECT_EQ(shape(layer.up), Shape(96, 96));
    EXPECT_EQ(shape(layer.down), Shape(96, 96));
  }
  EXPECT_EQ(loaded.weights.final_norm.size(), 96U);
  EXPECT_EQ(shape(loaded.weights.embedding), Shape(100, 96));
  EXPECT_EQ(shape(loaded.weights.lm_head), Shape(100, 96));
  EXPECT_NE(loaded.weights.lm_head.bytes, loaded.weights.embedding.bytes);
  EXPECT_EQ(loaded.weights.layers[1].query.name, "blk.1.attn_q.weight");
}

TEST(Weights, ATiedHeadIsTheEmbeddingItself) {
  const TemporaryFile file{RandomModel{}};
  const LoadedModel loaded(file.path());
  EXPECT_TRUE(loaded.config.tied_head);
  EXPECT_EQ(loaded.weights.lm_head.bytes, loaded.weights.embedding.bytes);
}

TEST(Weights, EveryFormatMayServeEveryMatrix) {
  RandomModel model;
  model.tied_head = false;
  model.norm_format = quant::TensorType::bf16;
  model.formats = {{"blk.0.attn_q.weight", quant::TensorType::q8_0},
                   {"blk.0.attn_k.weight", quant::TensorType::q4_0},
                   {"blk.0.attn_v.weight", quant::TensorType::q5_0},
                   {"blk.0.attn_output.weight", quant::TensorType::f16},
                   {"blk.1.attn_q_norm.weight", quant::TensorType::f16},
                   {"token_embd.weight", quant::TensorType::q5_0},
                   {"output.weight", quant::TensorType::bf16}};
  EXPECT_EQ(refusal(model), "loaded");
}

TEST(Weights, NormsOfEveryFloatFormatAreDecoded) {
  for (const auto type : {quant::TensorType::f32, quant::TensorType::f16, quant::TensorType::bf16}) {
    RandomModel model;
    model.norm_format = type;
    model.change = [](const std::string& name, std::vector<float>& values) {
      if (name == "blk.0.attn_norm.weight") values.assign(values.size(), 1.5F);
    };
    const TemporaryFile file(model);
    const LoadedModel loaded(file.path());
    EXPECT_EQ(loaded.weights.layers[0].attention_norm, std::vector<float>(64, 1.5F));
  }
}

TEST(Weights, NamesEveryMissingTensorUpToTen) {
  RandomModel model;
  model.without_tensors = {"blk.1.ffn_up.weight"};
  expect_refused(model, {"expected the 24 that qwen3.block_count = 2 (at byte ",
                         "found 1 missing: blk.1.ffn_up.weight"});
  model.without_tensors.insert("blk.0.attn_q_norm.weight");
  model.without_tensors.insert("output_norm.weight");
  expect_refused(model, {"expected the 24", "found 3 missing: ", "blk.0.attn_q_norm.weight",
                         "blk.1.ffn_up.weight", "output_norm.weight"});
  model.without_tensors = {"token_embd.weight"};
  expect_refused(model, {"tensor \"token_embd.weight\"", "found no such tensor"});

  RandomModel more;  // metadata says 4 layers, the file has 2
  more.metadata = {{"qwen3.block_count", std::uint32_t{4}}};
  expect_refused(more, {"expected the 46", "found 22 missing", "qwen3.block_count = 4",
                        "blk.2.attn_norm.weight", ", ..."});
}

TEST(Weights, ManyMissingLayersAreRefusedInNoTime) {
  RandomModel model;
  model.metadata = {{"qwen3.block_count", std::uint32_t{4096}}};
  expect_refused(model, {"missing", "qwen3.block_count = 4096"});
}

TEST(Weights, FewerLayersThanTheFileHasAreNotIgnored) {
  RandomModel model;
  model.metadata = {{"qwen3.block_count", std::uint32_t{1}}};
  expect_refused(model, {"blk.1.", "found layer 1", "a layer below qwen3.block_count = 1 (at byte "});
}

TEST(Weights, TellsBothSidesOfAWrongShape) {
  struct Case {
    const char* tensor;
    std::vector<std::uint64_t> shape;
    std::vector<std::string> message;
  };
  const std::vector<Case> cases = {
      {"blk.0.attn_q.weight", {64, 64}, {"[64, 64]", "[64, 128]", "head_count x key_length"}},
      {"blk.1.attn_k.weight", {64, 128}, {"[64, 128]", "[64, 64]", "head_count_kv x key_length"}},
      {"blk.0.attn_v.weight", {96, 64}, {"[96, 64]", "[64, 64]", "embedding_length"}},
      {"blk.0.attn_output.weight", {64, 128}, {"[64, 128]", "[128, 64]"}},  // transposed
      {"blk.0.ffn_down.weight", {64, 96}, {"[64, 96]", "[96, 64]", "feed_forward_length"}},
      {"blk.0.attn_q_norm.weight", {128}, {"[128]", "[32]", "key_length"}},
      {"blk.1.ffn_norm.weight", {63}, {"[63]", "[64]"}},
      {"output_norm.weight", {64, 2}, {"[64, 2]", "[64]"}},
      {"blk.0.ffn_gate.weight", {64, 96, 2}, {"[64, 96, 2]", "[64, 96]"}},
  };
  for (const Case& c : cases) {
    RandomModel model;
    model.shapes = {{c.tensor, c.shape}};
    auto message = c.message;
    message.emplace_back(fmt::format("tensor \"{}\": shape: expected", c.tensor));
    message.emplace_back("at byte ");
    expect_refused(model, message);
  }
  RandomModel head;
  head.tied_head = false;
  head.shapes = {{"output.weight", {64, 99}}};
  expect_refused(head, {"output.weight", "[64, 99]", "[64, 100]", "token_embd.weight"});
  head.shapes = {{"output.weight", {128, 100}}};
  expect_refused(head, {"output.weight", "[128, 100]", "[64, 100]"});
}

/// Writes another tensor type into the table; returns where the tensor's entry starts.
std::uint64_t change_type(const std::filesystem::path& path, const std::string& tensor, std::uint32_t type) {
  const auto file = gguf::File::open(path);
  const auto* info = file.find_tensor(tensor);
  const std::uint64_t at = info->declared_at + 8 + tensor.size() + 4 + 8 * info->shape.size();
  std::fstream bytes(path, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(static_cast<std::streamoff>(at));
  bytes.write(reinterpret_cast<const char*>(&type), sizeof type);
  return info->declared_at;
}

TEST(Weights, TypesThatCannotBeDecodedAreRefusedNamingThoseThatCan) {
  const auto refused = [](const std::string& tensor, std::uint32_t type, const std::string& name) {
    RandomModel model;
    model.hidden_size = 256;
    model.ffn_size = 256;
    model.matrix_format = quant::TensorType::q8_0;
    const TemporaryFile file(model);
    const auto at = change_type(file.path(), tensor, type);
    try {
      const LoadedModel loaded(file.path());
      ADD_FAILURE() << tensor;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                fmt::format(
                    "\"{}\": tensor \"{}\": type: expected one of {} at byte {}, found {} ({}); convert the "
                    "model to one of these",
                    file.path().native(), tensor, quant::accepted_formats(), at, name, type));
    }
  };
  refused("blk.1.ffn_up.weight", 12, "q4_k");
  refused("blk.0.attn_q.weight", 14, "q6_k");
  refused("blk.0.attn_norm.weight", 26, "i32");
  refused("token_embd.weight", 26, "i32");
}

TEST(Weights, ATypeThatCannotBeDecodedHarmsNobodyWhereItIsNotUsed) {
  RandomModel model;
  model.extra_tensors = {{"cls.output.weight", {64, 2}}};
  const TemporaryFile file(model);
  change_type(file.path(), "cls.output.weight", 26);
  EXPECT_NO_THROW(LoadedModel{file.path()});
}

TEST(Weights, TrailingDimensionsOfOneMeanNothing) {
  RandomModel model;
  model.shapes = {{"output_norm.weight", {64, 1}}, {"blk.0.attn_q.weight", {64, 128, 1, 1}}};
  EXPECT_EQ(refusal(model), "loaded");
}

TEST(Weights, TensorsOfOtherModelsAreNotIgnored) {
  for (const char* name : {"blk.0.attn_q.bias", "blk.1.ffn_down.bias", "rope_freqs.weight", "output.bias",
                           "blk.0.ffn_gate_inp.weight", "blk.0.attn_sinks.weight", "token_types.weight",
                           "output_norm.bias", "blk.x.weight"}) {
    RandomModel model;
    model.extra_tensors = {{name, {64}}};
    expect_refused(model, {name, "expected a part of a qwen3 model at byte ", "will not ignore it"});
  }
}

TEST(Weights, WhatStandsOutsideTheDecoderIsOnlyReported) {
  RandomModel model;
  model.extra_tensors = {{"cls.output.weight", {64, 2}}};
  EXPECT_THAT(test::warnings(model), testing::HasSubstr("\"cls.output.weight\""));
}

/// Resident memory of this process that is not backed by a file, in bytes.
std::uint64_t anonymous_memory() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kib = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kib;
  }
  return kib * 1024;
}

TEST(Weights, LoadingMapsTheFileAndCopiesNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers change what memory holds";
#endif
  RandomModel model;
  model.vocab_size = 100000;  // 25.6 MB of embedding
  const TemporaryFile file(model);
  const std::uint64_t before = anonymous_memory();
  ASSERT_GT(before, 0U);
  const LoadedModel loaded(file.path());
  EXPECT_LT(anonymous_memory(), before + (std::uint64_t{2} << 20U));
}

}  // namespace
}  // namespace inferno
