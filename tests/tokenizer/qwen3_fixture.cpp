#include "tokenizer/qwen3_fixture.hpp"

#include <memory>

#include "tokenizer/fixtures.hpp"
#include "tokenizer/vocabulary.hpp"

namespace inferno::test {
namespace {

std::unique_ptr<const Tokenizer> loaded;

}  // namespace

std::filesystem::path qwen3_folder() {
  return std::filesystem::path(INFERNO_QWEN3_TOKENIZER).parent_path();
}

void Qwen3Test::SetUpTestSuite() {
  if (loaded || !std::filesystem::exists(INFERNO_QWEN3_TOKENIZER)) return;
  loaded = std::make_unique<const Tokenizer>(vocabulary_from_json(
      read_file(INFERNO_QWEN3_TOKENIZER), read_file(qwen3_folder() / "tokenizer_config.json")));
}

void Qwen3Test::TearDownTestSuite() {
  loaded.reset();
}

void Qwen3Test::SetUp() {
  if (!loaded) GTEST_SKIP() << INFERNO_QWEN3_TOKENIZER << " is not there; run scripts/fetch-tokenizer";
}

const Tokenizer& Qwen3Test::tokenizer() {
  return *loaded;
}

}  // namespace inferno::test
