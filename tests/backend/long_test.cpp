#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/runner.hpp"
#include "support/random_model.hpp"
#include "support/reference_forward.hpp"

namespace inferno {
namespace {

using test::Layout;
using test::RandomModel;
using test::ReferenceForward;
using test::relative_error;
using test::Runner;
using test::TemporaryFile;

RandomModel narrow() {
  RandomModel model;
  model.layers = 2;
  model.hidden_size = 16;
  model.ffn_size = 16;
  model.heads = 2;
  model.kv_heads = 1;
  model.head_dim = 8;
  model.vocab_size = 40;
  model.context_length = 40960;
  return model;
}

/// 4,090 tokens and 20 decoded ones: nothing happens at 4096, at a block's or at a split's end.
TEST(LongContext, NoSeamAt4096) {
  const TemporaryFile file(narrow());
  const LoadedModel model(file.path());
  const auto ids = test::random_ids(4110, 40, 9);
  const auto prompt = std::span(ids).first(4090);

  Runner whole(model, {.context = 4200, .block_size = 16, .layout = Layout::scattered});
  const auto expected_bits = whole.logits(ids, ids.size());
  const auto expected = ReferenceForward(model.file).logits(ids);
  double largest = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    largest = std::max(largest, relative_error<double>(expected[t], expected_bits[t]));
  }
  EXPECT_LT(largest, 1e-5);
  RecordProperty("largest_error", fmt::format("{}", largest));

  // Decode across the border, one token at a time, after a prompt in chunks.
  Runner chunks(model, {.context = 4200, .block_size = 256});
  auto logits = chunks.logits(prompt, 512);
  for (std::size_t t = prompt.size(); t < ids.size(); ++t) {
    StepBatch batch;
    batch.add_row({TokenInput::of(ids[t])}, static_cast<std::uint32_t>(t), chunks.blocks());
    batch.add_output(OutputKind::logits);
    auto result = chunks.executor().wait(chunks.executor().submit(batch));
    logits.push_back(std::move(result.values.at(0)));
  }
  EXPECT_TRUE(logits == expected_bits);
}

struct Scaling {
  const char* name;
  gguf::Metadata metadata;
};

class Scaled : public testing::TestWithParam<Scaling> {};

/// A whole model with scaled rotary angles, far beyond its original context, against the reference that
/// computes them from the paper.
TEST_P(Scaled, MatchesTheReference) {
  RandomModel model = narrow();
  model.head_dim = 32;
  model.metadata = GetParam().metadata;
  const TemporaryFile file(model);
  const LoadedModel loaded(file.path());
  const auto ids = test::random_ids(700, 40, 4);
  const auto expected = ReferenceForward(loaded.file).logits(ids);
  const auto actual = Runner(loaded, {.context = 700}).logits(ids, 700);
  double largest = 0;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    largest = std::max(largest, relative_error<double>(expected[t], actual[t]));
  }
  EXPECT_LT(largest, 1e-5);
  // And it matters: without the scaling the logits are others.
  RandomModel plain = model;
  plain.metadata.clear();
  const TemporaryFile plain_file(plain);
  const LoadedModel plain_model(plain_file.path());
  EXPECT_GT(relative_error<float>(Runner(plain_model, {.context = 700}).last_logits(ids, 700), actual.back()),
            1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    LongContext, Scaled,
    testing::Values(Scaling{"yarn",
                            {{"qwen3.rope.scaling.type", std::string("yarn")},
                             {"qwen3.rope.scaling.factor", 4.0F},
                             {"qwen3.rope.scaling.original_context_length", std::uint32_t{64}}}},
                    Scaling{"yarn_betas",
                            {{"qwen3.rope.scaling.type", std::string("yarn")},
                             {"qwen3.rope.scaling.factor", 2.5F},
                             {"qwen3.rope.scaling.original_context_length", std::uint32_t{256}},
                             {"qwen3.rope.scaling.yarn_beta_fast", 8.0F},
                             {"qwen3.rope.scaling.yarn_beta_slow", 0.5F}}},
                    Scaling{"linear",
                            {{"qwen3.rope.scaling.type", std::string("linear")},
                             {"qwen3.rope.scaling.factor", 4.0F}}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace inferno
