// Models whose output is chosen: the engine from token to text, without trained weights.

#include <gtest/gtest.h>

#include <inferno/engine.hpp>

#include "support/scripted_model.hpp"
#include "support/temporary_folder.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno {
namespace {

/// 256 byte tokens in the byte-to-character alphabet are ids 0 .. 255; 256 is <|end|>.
constexpr std::int32_t kEnd = 256;

Vocabulary byte_vocabulary();

class Chains : public testing::TestWithParam<const char*> {
 protected:
  Generation run(const std::vector<std::vector<std::int32_t>>& chains, std::int32_t start,
                 std::uint32_t max_tokens, std::vector<std::string> stop = {},
                 const SamplingSettings& sampling = {}) {
    test::ScriptedModel scripted;
    scripted.chains = chains;
    scripted.vocab_size = 300;
    scripted.vocabulary = byte_vocabulary();
    const auto path = folder_ / "scripted.gguf";
    scripted.write(path);
    EngineOptions options;
    options.backend = GetParam();
    Engine engine(Model::load(path), options);
    Request request;
    request.prompt_ids = {start};
    request.max_tokens = max_tokens;
    request.stop = std::move(stop);
    request.sampling = sampling;
    streamed_.clear();
    return engine.generate(request, [this](std::string_view text) {
      streamed_.emplace_back(text);
      return true;
    });
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> streamed_;
};

/// Byte-level BPE spells bytes as characters; here the id of a byte's token is what the vocabulary's list
/// says.
Vocabulary byte_vocabulary() {
  Vocabulary vocabulary;
  // GPT-2's alphabet: printable bytes stand for themselves, the others from U+0100 on.
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int character = printable ? byte : next++;
    std::string text;
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xC0 | (character >> 6));
      text += static_cast<char>(0x80 | (character & 0x3F));
    }
    vocabulary.tokens.push_back(text);
    vocabulary.types.push_back(TokenType::normal);
  }
  vocabulary.tokens.emplace_back("<|end|>");
  vocabulary.types.push_back(TokenType::control);
  vocabulary.tokens.emplace_back("ab");
  vocabulary.types.push_back(TokenType::normal);
  vocabulary.merges = {{"a", "b"}};
  vocabulary.eos = kEnd;
  return vocabulary;
}

std::vector<std::int32_t> bytes_of(std::string_view text) {
  std::vector<std::int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

TEST_P(Chains, ACharacterSplitOverTokensComesWhole) {
  auto chain = bytes_of(">a\xF0\x9D\x84\x9Ez");  // U+1D11E over four tokens
  chain.push_back(kEnd);
  const auto generation = run({chain}, '>', 20);
  EXPECT_EQ(generation.text, "a\xF0\x9D\x84\x9Ez");
  EXPECT_EQ(generation.finish_reason, FinishReason::stop);
  EXPECT_EQ(generation.ids.back(), kEnd);
  EXPECT_EQ(streamed_, (std::vector<std::string>{"a", "\xF0\x9D\x84\x9E", "z"}));
}

TEST_P(Chains, ACharacterThatIsCutOffBecomesAReplacement) {
  const auto generation = run({bytes_of(">a\xF0\x9D\x84\x9Ez")}, '>', 3);
  EXPECT_EQ(generation.text, "a\xEF\xBF\xBD");
  EXPECT_EQ(generation.finish_reason, FinishReason::length);
}

TEST_P(Chains, NothingOfAStopStringOverSeveralTokensLeaks) {
  const auto chain = bytes_of("0123456789");
  const auto generation = run({chain}, '0', 20, {"567"});
  EXPECT_EQ(generation.text, "1234");
  EXPECT_EQ(generation.finish_reason, FinishReason::stop);
  std::string joined;
  for (const auto& piece : streamed_) joined += piece;
  EXPECT_EQ(joined, "1234");
}

TEST_P(Chains, AStopStringInsideACharacterSplitOverTokens) {
  const auto generation = run({bytes_of(">a\xF0\x9D\x84\x9Ez")}, '>', 20, {"\xF0\x9D\x84\x9E"});
  EXPECT_EQ(generation.text, "a");
}

TEST_P(Chains, AFlatModelTakesTheLowestIdAtEveryStep) {
  const auto generation = run({}, 'x', 5);
  EXPECT_EQ(generation.ids, (std::vector<std::int32_t>{0, 0, 0, 0, 0}));
}

TEST_P(Chains, AFlatModelTakesTheLowestIdAtATinyTemperatureAndThroughPenalties) {
  SamplingSettings tiny;
  tiny.temperature = 1e-4F;
  EXPECT_EQ(run({}, 'x', 3, {}, tiny).ids, (std::vector<std::int32_t>{0, 0, 0}));
  SamplingSettings penalties;
  penalties.repetition_penalty = 1.5F;  // 0 / 1.5 is 0: still a tie
  EXPECT_EQ(run({}, 'x', 3, {}, penalties).ids, (std::vector<std::int32_t>{0, 0, 0}));
  penalties.presence_penalty = 1.0F;  // generated ids fall behind
  EXPECT_EQ(run({}, 'x', 3, {}, penalties).ids, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST_P(Chains, ABiasForcesATokenThatHasNoText) {
  SamplingSettings forced;
  forced.logit_bias = {{290, 100.0F}};  // beyond the tokenizer's list, inside the matrix
  const auto generation = run({}, 'x', 4, {}, forced);
  EXPECT_EQ(generation.ids, (std::vector<std::int32_t>{290, 290, 290, 290}));
  EXPECT_EQ(generation.text, "");
  EXPECT_EQ(generation.finish_reason, FinishReason::length);
}

TEST_P(Chains, BanningEveryTokenIsAnError) {
  SamplingSettings banned;
  for (std::int32_t id = 0; id < 300; ++id) banned.logit_bias.emplace_back(id, -100.0F);
  EXPECT_THROW(run({}, 'x', 4, {}, banned), Error);
}

INSTANTIATE_TEST_SUITE_P(Backends, Chains, testing::Values("scalar", "reference", "pool"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace inferno
