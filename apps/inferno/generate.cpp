#include <memory>

#include "command.hpp"
#include "common/command_line.hpp"
#include "common/generate_run.hpp"
#include "common/options.hpp"
#include "common/text_file.hpp"

namespace inferno::cli {
namespace {

struct GenerateOptions {
  ModelOption model;
  EngineOptionGroup engine;
  SamplingOptionGroup sampling;
  GenerateOutput output;
  Request request;
  std::string ids;
  std::string file;
};

/// A file's last line end is the editor's, not the prompt's.
std::string prompt_of_file(const std::string& path) {
  auto text = read_text(path);
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace

void add_generate(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("generate", "continue a prompt, then print how fast it went");
  const auto options = std::make_shared<GenerateOptions>();
  options->request.prompt = "Once upon a time";
  options->model.add_to(*command);
  command->add_option("-p,--prompt", options->request.prompt, "raw text; control tokens in it are recognized")
      ->capture_default_str();
  command
      ->add_option("-f,--file", options->file,
                   "file with the prompt, a line end at its end left out; - is stdin")
      ->check(check_not_empty)
      ->excludes("-p");
  command->add_option("--ids", options->ids, "prompt as token ids, 1,2,3, instead of text")
      ->check(check_not_empty)
      ->excludes("-p")
      ->excludes("-f");
  command->add_option("-n,--max-tokens", options->request.max_tokens, "tokens to generate at most")
      ->capture_default_str();
  command->add_option("--stop", options->request.stop, "end right before this text; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--ignore-eos", options->request.ignore_end_tokens, "go on after end tokens");
  options->engine.add_to(*command);
  options->sampling.add_to(*command);
  command->add_flag("--json", options->output.json, "print one JSON object instead of text and metrics");
  command->add_flag("--hash", options->request.hash_logits, "hash the logits of every generated position");
  command->add_flag("-v,--verbose", options->output.verbose, "log each step: number, id, text, probability");
  command->add_flag("--trace", options->output.trace, "print how often each stage ran, and how long");
  set_examples(
      *command,
      "  inferno generate\n"
      "  inferno generate -p \"The little dog was sad because\" -n 200 --temp 0.8 --top-p 0.95 --seed 7\n"
      "  inferno generate -m Qwen3-0.6B-Q8_0.gguf -p \"def main():\" --backend scalar --json\n"
      "  inferno generate -f prompt.txt -n 500\n"
      "  inferno generate -n 3 --trace");
  command->callback([&action, options] {
    action = [options] {
      options->request.sampling = options->sampling.resolved();
      options->request.prompt_ids = parse_ids(options->ids);
      if (!options->file.empty()) options->request.prompt = prompt_of_file(options->file);
      return run_generate(options->model.load(), options->engine.options, options->request, options->output);
    };
  });
}

}  // namespace inferno::cli
