#include "synth/synth.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <xxhash.h>

#include <inferno/error.hpp>

#include "model/config.hpp"
#include "model/weights.hpp"
#include "support/reference_forward.hpp"
#include "synth/preset.hpp"
#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/tokenizer.hpp"

namespace inferno {
namespace {

using quant::TensorType;

class Synth : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("inferno-synth-{}", ::getpid());
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "model.gguf";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  gguf::File make(const SynthOptions& options) {
    synthesize(options, path_);
    return gguf::File::open(path_);
  }

  std::string bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::size_t files() const {
    const std::filesystem::directory_iterator all(folder_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

  void write_text(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

SynthOptions tiny(TensorType type = TensorType::q8_0, std::uint64_t seed = 1) {
  SynthOptions options;
  options.preset = "tiny";
  options.type = type;
  options.seed = seed;
  return options;
}

TEST_F(Synth, EveryTypeMakesAWholeModel) {
  for (const quant::Format& format : quant::formats()) {
    const gguf::File file = make(tiny(format.type));
    const ModelConfig config = read_config(file);
    const ModelConfig& shape = find_preset("tiny").config;
    EXPECT_EQ(config.layers, shape.layers);
    EXPECT_EQ(config.hidden_size, shape.hidden_size);
    EXPECT_EQ(config.ffn_size, shape.ffn_size);
    EXPECT_EQ(config.heads, shape.heads);
    EXPECT_EQ(config.kv_heads, shape.kv_heads);
    EXPECT_EQ(config.head_dim, shape.head_dim);
    EXPECT_EQ(config.vocab_size, shape.vocab_size);
    EXPECT_EQ(config.context_length, 40960U);
    EXPECT_TRUE(config.tied_head);
    const ModelWeights weights = bind_weights(file, config);
    EXPECT_EQ(weights.embedding.format->type, format.type);
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      EXPECT_EQ(tensor.format->type, tensor.shape.size() == 1 ? TensorType::f32 : format.type) << tensor.name;
    }
    for (const float weight : weights.final_norm) EXPECT_NEAR(weight, 1.0F, 0.126F);
  }
}

TEST_F(Synth, TaleHasItsShape) {
  SynthOptions options;
  options.preset = "Tale";
  const gguf::File file = make(options);
  const ModelConfig config = read_config(file);
  bind_weights(file, config);
  EXPECT_EQ(config.context_length, 8192U);
  const gguf::File shipped = gguf::File::open(std::filesystem::path(INFERNO_MODELS) / "tale-12m-q8_0.gguf");
  ASSERT_EQ(file.tensors().size(), shipped.tensors().size());
  for (const gguf::TensorInfo& tensor : shipped.tensors()) {
    const gguf::TensorInfo* made = file.find_tensor(tensor.name);
    ASSERT_NE(made, nullptr) << tensor.name;
    EXPECT_EQ(made->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(made->format, tensor.format) << tensor.name;
  }
}

// A change of these bytes is a change of every recorded result on random models.
TEST_F(Synth, SameSeedSameBytes) {
  synthesize(tiny(), path_);
  const std::string once = bytes();
  EXPECT_EQ(fmt::format("{:016x}", XXH3_64bits(once.data(), once.size())), "42d2f5df694651cd");
  for (const std::uint32_t threads : {1U, 3U}) {
    SynthOptions options = tiny();
    options.threads = threads;
    synthesize(options, path_);
    EXPECT_EQ(bytes(), once);
  }
  synthesize(tiny(TensorType::q8_0, 2), path_);
  EXPECT_NE(bytes(), once);
}

TEST_F(Synth, LogitsAreSpreadAndDependOnTheContext) {
  for (const auto preset : {"tiny", "tale"}) {
    SynthOptions options;
    options.preset = preset;
    const gguf::File file = make(options);
    const test::ReferenceForward forward(file);
    const auto all = forward.logits(std::vector<std::int32_t>{72, 101, 108, 108, 111, 32, 72});
    std::vector<std::ptrdiff_t> best;
    for (const auto& logits : all) {
      double sum = 0;
      double squares = 0;
      for (const double logit : logits) {
        sum += logit;
        squares += logit * logit;
      }
      const auto count = static_cast<double>(logits.size());
      const double deviation = std::sqrt(squares / count - sum * sum / count / count);
      EXPECT_GT(deviation, 1.5) << preset;
      EXPECT_LT(deviation, 6.0) << preset;
      best.push_back(std::ranges::max_element(logits) - logits.begin());
    }
    double difference = 0;  // the first and the last token are equal
    for (std::size_t i = 0; i < all[0].size(); ++i)
      difference = std::max(difference, std::abs(all[0][i] - all[6][i]));
    EXPECT_GT(difference, 1.0) << preset;
    std::ranges::sort(best);
    EXPECT_GE(std::unique(best.begin(), best.end()) - best.begin(), 3) << preset;
  }
}

TEST_F(Synth, OwnVocabularyEncodesAnyText) {
  const gguf::File file = make(tiny());
  const Tokenizer tokenizer = Tokenizer::from_gguf(file);
  EXPECT_EQ(tokenizer.size(), 512U) << "filled up to the embedding's rows";
  EXPECT_EQ(tokenizer.bytes(500), "");
  const std::string text = "and then the end: \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x90\xB8 <|im_end|>";
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text, false)), text);
  EXPECT_THAT(tokenizer.encode(" the", false), testing::SizeIs(1));
  const auto end = tokenizer.encode("<|im_end|>", true);
  ASSERT_THAT(end, testing::SizeIs(1));
  EXPECT_TRUE(tokenizer.is_control(end[0]));
  EXPECT_THAT(tokenizer.end_tokens(), testing::Contains(end[0]));
  EXPECT_THAT(tokenizer.encode("<|im_end|>", false), testing::SizeIs(testing::Gt(1U)));
}

TEST_F(Synth, VocabularyMayEndBeforeTheRows) {
  SynthOptions options = tiny();
  options.pad_vocabulary = false;
  const gguf::File file = make(options);
  EXPECT_LT(Tokenizer::from_gguf(file).size(), 300U);
  EXPECT_EQ(read_config(file).vocab_size, 512U);
}

// A tokenizer.json of Qwen's kind with `extra` more added tokens.
std::string small_tokenizer(std::size_t extra) {
  nlohmann::json json;
  json["normalizer"]["type"] = "NFC";
  const std::string pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}}}}};
  nlohmann::json vocab;
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocab[std::string(alphabet_character(static_cast<std::uint8_t>(byte)))] = byte;
  }
  vocab["ab"] = 256;
  json["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b"}}};
  json["added_tokens"] = nlohmann::json::array();
  for (std::size_t i = 0; i < extra + 1; ++i) {
    json["added_tokens"].push_back({{"id", 257 + i},
                                    {"content", i == 0 ? "<|im_end|>" : fmt::format("<|extra_{}|>", i)},
                                    {"special", true}});
  }
  return json.dump();
}

TEST_F(Synth, TakesATokenizerAndTheConfigurationBesideIt) {
  SynthOptions options = tiny();
  options.tokenizer_json = folder_ / "tokenizer.json";
  write_text("tokenizer.json", small_tokenizer(1));
  {
    const Tokenizer tokenizer = Tokenizer::from_gguf(make(options));
    EXPECT_THAT(tokenizer.encode("ab<|extra_1|>", true), testing::ElementsAre(256, 258));
    EXPECT_EQ(tokenizer.vocabulary().chat_template, "");
    EXPECT_EQ(tokenizer.vocabulary().eos, 257);
  }
  write_text("tokenizer_config.json", R"({"eos_token": "<|extra_1|>", "chat_template": "{{ messages }}"})");
  const Tokenizer tokenizer = Tokenizer::from_gguf(make(options));
  EXPECT_EQ(tokenizer.vocabulary().chat_template, "{{ messages }}");
  EXPECT_EQ(tokenizer.vocabulary().eos, 258);
}

TEST_F(Synth, ALargeTokenizerGrowsASmallShape) {
  SynthOptions options = tiny(TensorType::q4_0);
  options.tokenizer_json = folder_ / "tokenizer.json";
  write_text("tokenizer.json", small_tokenizer(600));
  const gguf::File file = make(options);
  EXPECT_EQ(read_config(file).vocab_size, 151936U);
  EXPECT_EQ(Tokenizer::from_gguf(file).size(), 151936U);
}

TEST_F(Synth, ProgressEndsAtTheFilesSize) {
  std::uint64_t last = 0;
  std::uint64_t whole = 0;
  synthesize(tiny(), path_, [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    whole = total;
  });
  EXPECT_EQ(last, whole);
  EXPECT_EQ(whole, std::filesystem::file_size(path_));
}

TEST_F(Synth, RefusalsLeaveNothingBehind) {
  SynthOptions options = tiny();
  options.preset = "7b";
  EXPECT_THROW(synthesize(options, path_), UsageError);
  options = tiny();
  options.tokenizer_json = folder_ / "missing.json";
  EXPECT_THROW(synthesize(options, path_), Error);
  EXPECT_THROW(synthesize(tiny(), folder_ / "no" / "such" / "folder.gguf"), Error);
  EXPECT_EQ(files(), 0U);
  write_text("tokenizer.json", "{}");
  options.tokenizer_json = folder_ / "tokenizer.json";
  EXPECT_THROW(synthesize(options, path_), Error);
  EXPECT_EQ(files(), 1U);
}

TEST_F(Synth, AFullDiskIsFoundBeforeAnythingIsWritten) {
  SynthOptions options = tiny(TensorType::f32);
  options.preset = "32b";
  const std::uint64_t needed = 32'762'123'264ULL * 4;
  if (std::filesystem::space(folder_).available >= needed) GTEST_SKIP() << "the disk has room for 131 GB";
  try {
    synthesize(options, path_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string(needed)));
  }
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace inferno
