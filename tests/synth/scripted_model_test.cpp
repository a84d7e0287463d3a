#include "support/scripted_model.hpp"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <inferno/error.hpp>

#include "model/config.hpp"
#include "model/weights.hpp"
#include "support/random_model.hpp"
#include "support/reference_forward.hpp"
#include "synth/byte_vocabulary.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno::test {
namespace {

// Follows the greedy choice of the independent forward pass.
std::vector<std::int32_t> transcript(const gguf::File& file, std::vector<std::int32_t> ids,
                                     std::size_t length) {
  const ReferenceForward forward(file);
  while (ids.size() < length) {
    const auto logits = forward.logits(ids).back();
    ids.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  return ids;
}

TEST(ScriptedModel, FollowsItsScript) {
  ScriptedModel model;
  model.vocab_size = 100;
  model.chains = {{19, 6, 12, 65, 99}, {50, 51, 50}};
  for (const auto type : {quant::TensorType::f32, quant::TensorType::f16, quant::TensorType::q8_0}) {
    model.type = type;
    const TemporaryFile path;
    model.write(path.path());
    const auto file = gguf::File::open(path.path());
    bind_weights(file, read_config(file));
    EXPECT_THAT(transcript(file, {3, 19}, 6), testing::ElementsAre(3, 19, 6, 12, 65, 99));
    EXPECT_THAT(transcript(file, {50}, 5), testing::ElementsAre(50, 51, 50, 51, 50));
    const auto logits = ReferenceForward(file).logits(std::vector<std::int32_t>{19}).back();
    EXPECT_NEAR(logits[6], 64.0, 0.1);
    EXPECT_EQ(std::ranges::count(logits, 0.0), 99);
  }
}

TEST(ScriptedModel, WithoutAScriptEveryLogitIsZero) {
  for (const auto type : {quant::TensorType::f32, quant::TensorType::q8_0, quant::TensorType::q4_0}) {
    ScriptedModel flat;
    flat.vocab_size = 70;
    flat.type = type;
    const TemporaryFile path;
    flat.write(path.path());
    const auto file = gguf::File::open(path.path());
    for (const auto& logits : ReferenceForward(file).logits(std::vector<std::int32_t>{0, 5, 69})) {
      EXPECT_THAT(logits, testing::Each(0.0));
    }
  }
}

TEST(ScriptedModel, CarriesAVocabulary) {
  ScriptedModel model;
  model.vocabulary = byte_vocabulary();
  model.vocab_size = 300;
  model.chains = {{'a', 'b', *model.vocabulary->eos}};
  const TemporaryFile path;
  model.write(path.path());
  const auto file = gguf::File::open(path.path());
  const Tokenizer tokenizer = Tokenizer::from_gguf(file);
  EXPECT_EQ(tokenizer.decode(transcript(file, {'a'}, 3)), "ab<|im_end|>");
}

TEST(ScriptedModel, RefusesWhatCannotBeScripted) {
  const TemporaryFile path;
  ScriptedModel model;
  model.vocab_size = 100;
  model.chains = {{1, 2}, {1, 3}};
  EXPECT_THROW(model.write(path.path()), Error);
  model.chains = {{1, 100}};
  EXPECT_THROW(model.write(path.path()), Error);
  model.chains = {{}};
  for (std::int32_t id = 0; id < 66; ++id) model.chains[0].push_back(id);
  EXPECT_THROW(model.write(path.path()), Error);
  EXPECT_FALSE(std::filesystem::exists(path.path()));
}

}  // namespace
}  // namespace inferno::test
