// The inferno command line: picks the subcommand, turns errors into one line and an exit code
// (0 done, 1 the work failed, 2 bad usage). Results go to stdout, everything else to stderr.

#include <string_view>
#include <vector>

#include "command.hpp"
#include "common/command_line.hpp"
#include "common/program.hpp"
#include "version.hpp"

namespace {

/// `inferno help serve` is `inferno serve --help`.
std::vector<char*> words_of(int argc, char** argv) {
  static std::string help = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (words.size() > 1 && std::string_view(words[1]) == "help") {
    words.erase(words.begin() + 1);
    words.push_back(help.data());
  }
  return words;
}

int run(int argc, char** argv) {
  CLI::App app{"inferno: LLM inference for Qwen3 checkpoints in GGUF", "inferno"};
  app.set_version_flag("--version", "inferno " INFERNO_VERSION);
  app.require_subcommand(1);
  inferno::cli::Action action;
  inferno::cli::add_generate(app, action);
  inferno::cli::add_chat(app, action);
  inferno::cli::add_serve(app, action);
  inferno::cli::add_bench(app, action);
  inferno::cli::add_verify(app, action);
  inferno::cli::add_inspect(app, action);
  inferno::cli::add_tokenize(app, action);
  inferno::cli::add_render(app, action);
  inferno::cli::add_logits(app, action);
  inferno::cli::add_synth(app, action);
  inferno::cli::add_backends(app, action);
  inferno::cli::set_examples(app,
                             "  inferno generate -p \"Once upon a time\" -n 200 --temp 0.8\n"
                             "  inferno inspect -m model.gguf\n"
                             "  inferno COMMAND --help");
  auto words = words_of(argc, argv);
  const auto code = inferno::cli::parse_command_line(app, static_cast<int>(words.size()), words.data());
  if (code) return *code;
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  return inferno::cli::run_program([argc, argv] { return run(argc, argv); });
}
