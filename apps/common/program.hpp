#pragma once

#include <functional>
#include <string_view>

namespace inferno::cli {

// Exit codes, beside 0 for done.
inline constexpr int kFailed = 1;         ///< the work failed
inline constexpr int kBadUsage = 2;       ///< the caller asked for something that makes no sense
inline constexpr int kInterrupted = 130;  ///< ended by Ctrl-C: 128 + SIGINT

/// Runs a program's work and returns its exit code; errors become one line on stderr, those of usage with
/// `usage` below it. Results that could not be written are a failure.
int run_program(const std::function<int()>& work, std::string_view usage = {});

}  // namespace inferno::cli
