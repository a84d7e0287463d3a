#include "synth/synth.hpp"

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include <inferno/error.hpp>

#include "command.hpp"
#include "platform/quote.hpp"
#include "platform/terminal.hpp"

namespace inferno::cli {
namespace {

struct SynthCommand {
  SynthOptions options;
  std::string type = "q8_0";
  std::string out;
  bool json = false;
};

int synth(SynthCommand& command) {
  const auto* format = quant::find_format(command.type);
  if (format == nullptr) {
    throw UsageError(
        fmt::format("--type {}: expected one of {}", quote(command.type), quant::accepted_formats()));
  }
  command.options.type = format->type;
  {
    ProgressLine progress(fmt::format("writing {}", command.out));
    synthesize(command.options, command.out,
               [&](std::uint64_t done, std::uint64_t total) { progress.update(done, total); });
  }
  const auto bytes = std::filesystem::file_size(command.out);
  if (command.json) {
    const nlohmann::ordered_json report = {{"path", command.out},
                                           {"preset", command.options.preset},
                                           {"type", format->name},
                                           {"seed", command.options.seed},
                                           {"bytes", bytes}};
    fmt::print("{}\n", report.dump(2));
  } else {
    fmt::print("{}: {} shape, {}, {} bytes\n", command.out, command.options.preset, format->name, bytes);
  }
  return 0;
}

}  // namespace

void add_synth(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("synth", "write a model of random weights in a true shape");
  const auto state = std::make_shared<SynthCommand>();
  command->add_option("--preset", state->options.preset, "tiny, tale, 0.6b, 1.7b, 4b, 8b, 14b or 32b")
      ->capture_default_str();
  command->add_option("--type", state->type, "of every matrix: f32, f16, bf16, q8_0, q4_0 or q5_0")
      ->capture_default_str();
  command->add_option("--seed", state->options.seed, "same seed, same bytes, on every platform")
      ->capture_default_str();
  command->add_option("--tokenizer", state->options.tokenizer_json,
                      "a Hugging Face tokenizer.json (default: bytes and Qwen's control tokens)");
  command->add_option("--threads", state->options.threads, "that make the numbers (0: all)")
      ->capture_default_str();
  command->add_flag("--json", state->json, "print what was written as JSON");
  command->add_option("out", state->out, "GGUF file to write")->required();
  set_examples(*command,
               "  inferno synth --preset 0.6b --type q8_0 --seed 1 /tmp/q06.gguf\n"
               "  inferno synth --preset tiny --tokenizer tokenizer.json /tmp/tiny.gguf");
  command->callback([&action, state] { action = [state] { return synth(*state); }; });
}

}  // namespace inferno::cli
