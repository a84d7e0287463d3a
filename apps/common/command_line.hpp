#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace inferno::cli {

/// Parses the command line. Prints help or the version if that was asked for. Returns the exit code if there
/// is nothing more to do, nullopt if the chosen subcommand should run. Throws UsageError in one line for what
/// makes no sense: unknown commands and options, numbers that are not all digits (0x10, 010, 1e99 for a
/// count, nothing).
std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

/// A check for options whose text must not be empty: scripts pass "$UNSET".
std::string check_not_empty(const std::string& text);

}  // namespace inferno::cli
