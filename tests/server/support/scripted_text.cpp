#include "server/support/scripted_text.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "support/scripted_model.hpp"
#include "support/temporary_folder.hpp"
#include "synth/byte_vocabulary.hpp"
#include "tokenizer/byte_alphabet.hpp"

namespace inferno::test {
namespace {

constexpr std::int32_t kNewline = 10;

std::int32_t add(Vocabulary& vocabulary, std::string token, TokenType type) {
  vocabulary.tokens.push_back(std::move(token));
  vocabulary.types.push_back(type);
  return static_cast<std::int32_t>(vocabulary.tokens.size() - 1);
}

}  // namespace

std::string qwen3_template() {
  std::ifstream file(INFERNO_TEST_DATA "/golden/chat_qwen3.json");
  return nlohmann::json::parse(file)["template"].get<std::string>();
}

std::pair<Vocabulary, std::vector<std::int32_t>> vocabulary_of(const std::vector<std::string>& pieces) {
  auto vocabulary = byte_vocabulary();
  vocabulary.chat_template = qwen3_template();
  for (const auto* tag : {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"}) {
    add(vocabulary, tag, TokenType::user_defined);
  }
  std::map<std::string, std::int32_t> known{{"<end>", *vocabulary.eos}};
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const auto type = vocabulary.types[id];
    if (type == TokenType::user_defined || type == TokenType::control) {
      known.emplace(vocabulary.tokens[id], static_cast<std::int32_t>(id));
    }
  }
  std::vector<std::int32_t> ids;
  for (const auto& piece : pieces) {
    const auto [at, is_new] = known.try_emplace(piece, -1);
    if (is_new) at->second = add(vocabulary, to_alphabet(piece), TokenType::normal);
    ids.push_back(at->second);
  }
  return {std::move(vocabulary), std::move(ids)};
}

Model model_that_writes(const std::vector<std::string>& pieces, std::uint32_t rows) {
  const TemporaryFolder folder;
  write_model_that_writes(folder / "scripted.gguf", pieces, rows);
  return Model::load(folder / "scripted.gguf", false);
}

void write_model_that_writes(const std::filesystem::path& path, const std::vector<std::string>& pieces,
                             std::uint32_t rows) {
  auto [vocabulary, ids] = vocabulary_of(pieces);
  ScriptedModel script;
  script.vocab_size = std::max(rows, static_cast<std::uint32_t>(vocabulary.tokens.size()));
  script.vocabulary = std::move(vocabulary);
  if (!ids.empty()) {
    ids.insert(ids.begin(), kNewline);
    script.chains = {ids};
  }
  script.write(path);
}

Model flat_model() {
  return model_that_writes({});
}

}  // namespace inferno::test
