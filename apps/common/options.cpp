#include "common/options.hpp"

#include <charconv>
#include <fmt/format.h>
#include <random>

#include "backend/registry.hpp"
#include "common/command_line.hpp"
#include "platform/cpu_budget.hpp"
#include "platform/log.hpp"

namespace inferno::cli {
namespace {

/// A whole number or float from all of `text`; false if anything is left over.
template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

void ModelOption::add_to(CLI::App& command) {
  command
      .add_option("-m,--model", path,
                  "GGUF file (default: the model that ships with inferno, or $INFERNO_MODEL)")
      ->check(check_not_empty);
  command.add_flag("--no-mmap", no_mmap, "read the file into memory instead of mapping it");
}

std::filesystem::path ModelOption::resolved() const {
  return path.empty() ? Model::default_path() : std::filesystem::path(path);
}

Model ModelOption::load() const {
  return Model::load(resolved(), !no_mmap);
}

void EngineOptionGroup::add_to(CLI::App& command) {
  command.add_option("--backend", options.backend, kBackendNames)->capture_default_str();
  command.add_option("--device", options.device, "device number of the backend (default: the best of them)");
  command.add_option("--threads", options.threads, "CPU threads (0: what quota and affinity allow)")
      ->capture_default_str();
  command.add_option("--kv", options.kv, "key/value cache: none, basic (contiguous) or paged")
      ->capture_default_str();
  command
      .add_option("--ctx", options.context,
                  "positions of a sequence (0: as many as needed, up to the model's context)")
      ->capture_default_str();
  command
      .add_option("--steps-per-submit", options.steps_per_submit, "decode steps chained in one submission")
      ->capture_default_str();
  command.add_option("--prefill-chunk", options.prefill_chunk, "most prompt tokens in one submission")
      ->capture_default_str();
  command.add_flag_callback(
      "-q,--quiet", [] { log().set_level(spdlog::level::warn); },
      "nothing on stderr but warnings and errors");
}

void report_threads(std::string_view backend, std::uint32_t asked) {
  if (!takes_threads(backend)) return;
  log().info("{}", choose_threads(asked, cpu_budget()).reason);
}

void SamplingOptionGroup::add_to(CLI::App& command) {
  const char* const group = "Sampling (in this order: bias, penalties, temperature, top-k, top-p, min-p)";
  command.add_option("--temp,--temperature", settings.temperature, "0: greedy")
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-k", settings.top_k, "keep the k most likely tokens (0: all)")
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-p", settings.top_p, "keep the most likely tokens with this much probability")
      ->capture_default_str()
      ->group(group);
  command.add_option("--min-p", settings.min_p, "keep tokens at least this likely relative to the best")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--repetition-penalty,--repeat-penalty", settings.repetition_penalty,
                  "divides logits of tokens seen before (1: off)")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--presence-penalty", settings.presence_penalty, "subtracted once from generated tokens")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--frequency-penalty", settings.frequency_penalty, "subtracted per generation of a token")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--logit-bias", biases, "ID=VALUE, added to a token's logit (-100: never); may be repeated")
      ->group(group);
  command.add_option("--seed", seed, "same seed, same text (default: drawn from the system)")->group(group);
}

SamplingSettings SamplingOptionGroup::resolved() const {
  auto result = settings;
  if (seed) {
    result.seed = *seed;
  } else if (result.temperature > 0.0F) {
    std::random_device device;
    result.seed = (std::uint64_t{device()} << 32U) | device();
  }
  for (const auto& bias : biases) {
    const auto equals = bias.find('=');
    std::int32_t id = 0;
    float value = 0;
    auto added = std::string_view(bias).substr(equals == std::string::npos ? bias.size() : equals + 1);
    if (added.size() > 1 && added[0] == '+' && added[1] != '-') added.remove_prefix(1);
    if (!parse_number(std::string_view(bias).substr(0, equals), id) || !parse_number(added, value)) {
      throw UsageError(fmt::format("--logit-bias '{}': expected ID=VALUE, for example 42=-100", bias));
    }
    result.logit_bias.emplace_back(id, value);
  }
  return result;
}

void add_verbose(CLI::App& command) {
  command.add_flag_callback(
      "-v,--verbose", [] { log().set_level(spdlog::level::debug); },
      "log more: which backends were looked at");
}

std::vector<std::int32_t> parse_ids(const std::string& text) {
  std::vector<std::int32_t> ids;
  std::size_t begin = 0;
  while (begin <= text.size() && !text.empty()) {
    const auto comma = std::min(text.find(',', begin), text.size());
    std::string_view part(text.data() + begin, comma - begin);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    std::int32_t id = 0;
    if (!parse_number(part, id)) {
      throw UsageError(
          fmt::format("'{}' at place {} of the id list is no token id; expected numbers like 1,2,3", part,
                      ids.size() + 1));
    }
    ids.push_back(id);
    begin = comma + 1;
  }
  return ids;
}

void check_ids(const std::vector<std::int32_t>& ids, std::uint32_t vocab_size) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<std::uint32_t>(ids[i]) >= vocab_size) {
      throw UsageError(
          fmt::format("id {} at place {} is outside the vocabulary of {}", ids[i], i + 1, vocab_size));
    }
  }
}

}  // namespace inferno::cli
