// write_scripted_model --tokenizer FOLDER [--chain 198,562,151645]... OUT.gguf
// A model whose greedy output is chosen, see scripted_model.hpp, for tests that are no C++ programs. FOLDER
// has tokenizer.json and tokenizer_config.json.
#include <CLI/CLI.hpp>
#include <charconv>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <inferno/error.hpp>

#include "support/scripted_model.hpp"

namespace inferno::test {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("{}: cannot be opened", path.string()));
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::int32_t> parse_chain(std::string_view text) {
  std::vector<std::int32_t> chain;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    std::int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && *next != ',')) {
      throw UsageError(fmt::format("--chain {}: expected ids with commas between them", text));
    }
    chain.push_back(id);
    if (next == end) return chain;
    at = next + 1;
  }
}

int run(int argc, char** argv) {
  CLI::App app("writes a model whose greedy output is chosen");
  std::vector<std::string> chains;
  std::filesystem::path tokenizer;
  std::filesystem::path out;
  app.add_option("--chain", chains, "after each of these ids comes the next one")->expected(1)->take_all();
  app.add_option("--tokenizer", tokenizer, "folder of tokenizer.json and tokenizer_config.json")->required();
  app.add_option("out", out, "GGUF file to write")->required();
  CLI11_PARSE(app, argc, argv);

  ScriptedModel model;
  model.type = quant::TensorType::q8_0;
  model.vocabulary = vocabulary_from_json(read_file(tokenizer / "tokenizer.json"),
                                          read_file(tokenizer / "tokenizer_config.json"));
  for (const auto& chain : chains) model.chains.push_back(parse_chain(chain));
  model.write(out);
  return 0;
}

}  // namespace
}  // namespace inferno::test

int main(int argc, char** argv) {
  try {
    return inferno::test::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
