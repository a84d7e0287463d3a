#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <inferno/engine.hpp>
#include <inferno/sampling.hpp>

namespace inferno::cli {

/// What --backend takes, for its help.
inline constexpr const char* kBackendNames =
    "scalar reference simd parallel pool hybrid|metal vulkan cuda gpu auto";

/// Which file: -m, else the model that ships with inferno.
struct ModelOption {
  std::string path;
  bool no_mmap = false;

  void add_to(CLI::App& command);
  std::filesystem::path resolved() const;
  Model load() const;
};

/// How to run it: --backend, --device, --threads, --kv, --ctx, --steps-per-submit.
struct EngineOptionGroup {
  EngineOptions options;

  void add_to(CLI::App& command);
};

/// Logs how many threads a CPU backend took, and why so many; nothing for others.
void report_threads(std::string_view backend, std::uint32_t asked);

/// --seed, --temp, --top-k, --top-p, --min-p, penalties, --logit-bias.
struct SamplingOptionGroup {
  SamplingSettings settings;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> biases;  ///< "ID=VALUE"

  void add_to(CLI::App& command);
  /// The settings, with a seed drawn from the system if none was given and one is needed.
  SamplingSettings resolved() const;
};

/// -v of commands that have nothing of their own to tell: more of what the log has.
void add_verbose(CLI::App& command);

/// "1,2,3" as ids. Throws UsageError naming the part that is no id.
std::vector<std::int32_t> parse_ids(const std::string& text);
/// Throws UsageError naming the first id that is outside the vocabulary, and its place.
void check_ids(const std::vector<std::int32_t>& ids, std::uint32_t vocab_size);

}  // namespace inferno::cli
