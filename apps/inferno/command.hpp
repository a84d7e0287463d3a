#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace inferno::cli {

/// What a chosen subcommand does; returns the exit code. Set by the subcommand's callback, run after parsing,
/// so that errors of the work are not mistaken for errors of usage.
using Action = std::function<int()>;

// One function per command, each in its own file: adds the subcommand and its options to the program.
void add_generate(CLI::App& app, Action& action);
void add_chat(CLI::App& app, Action& action);
void add_serve(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_tokenize(CLI::App& app, Action& action);
void add_render(CLI::App& app, Action& action);
void add_logits(CLI::App& app, Action& action);
void add_synth(CLI::App& app, Action& action);
void add_backends(CLI::App& app, Action& action);

/// Makes `examples` the foot of the subcommand's help.
void set_examples(CLI::App& command, const std::string& examples);

}  // namespace inferno::cli
