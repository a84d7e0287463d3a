// The positional form of `inferno generate`: model-generate [--kv [none|basic|paged]] [--backend B] MODEL
// "prompt" N

#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "common/generate_run.hpp"
#include "common/program.hpp"
#include "platform/quote.hpp"

namespace {

constexpr std::string_view kUsage =
    "usage: model-generate [--kv [none|basic|paged]] [--backend B] MODEL \"prompt\" N\n"
    "Continues the prompt by N tokens, greedily, then prints how fast it went.\n\n"
    "  --kv KIND    key/value cache (default paged, also when KIND is left out)\n"
    "  --backend B  see `inferno backends` (default auto)\n\n"
    "Example:\n"
    "  model-generate --kv basic models/tale-12m-q8_0.gguf \"Once upon a time\" 100\n";

struct Arguments {
  inferno::EngineOptions engine;
  std::string model;
  inferno::Request request;
};

bool is_kv_kind(std::string_view word) {
  return word == "none" || word == "basic" || word == "paged";
}

Arguments parse(const std::vector<std::string>& words) {
  Arguments arguments;
  std::vector<std::string> positional;
  std::string after_kv;  // what is no kind of cache, and so may be the model or a slip
  bool options_end = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    const bool has_next = i + 1 < words.size();
    const auto is = [&](std::string_view option) { return !options_end && word == option; };
    const auto begins = [&](std::string_view option) { return !options_end && word.starts_with(option); };
    if (is("--")) {
      options_end = true;
    } else if (is("--kv")) {
      // Its value is optional: the word after it is one only if it names a kind.
      if (has_next && is_kv_kind(words[i + 1])) {
        arguments.engine.kv = words[++i];
      } else if (has_next) {
        after_kv = words[i + 1];
      }
    } else if (begins("--kv=")) {
      arguments.engine.kv = word.substr(5);
    } else if (is("--backend")) {
      if (!has_next) throw inferno::UsageError("--backend needs a name");
      arguments.engine.backend = words[++i];
    } else if (begins("--backend=")) {
      arguments.engine.backend = word.substr(10);
    } else if (begins("--") && positional.empty()) {
      throw inferno::UsageError(fmt::format("unknown option {}", word));
    } else {
      positional.push_back(word);
    }
  }
  if (positional.size() != 3) {
    const auto slip = positional.size() == 4 && !after_kv.empty() && positional[0] == after_kv
                          ? fmt::format("; {} after --kv is no kind of cache: none, basic or paged",
                                        inferno::quote(after_kv))
                          : std::string();
    throw inferno::UsageError(
        fmt::format("expected MODEL \"prompt\" N, found {} arguments{}", positional.size(), slip));
  }
  arguments.model = positional[0];
  arguments.request.prompt = positional[1];
  const auto& count = positional[2];
  const auto [end, error] =
      std::from_chars(count.data(), count.data() + count.size(), arguments.request.max_tokens);
  if (error != std::errc() || end != count.data() + count.size()) {
    throw inferno::UsageError(fmt::format("N is '{}'; expected a whole number of tokens", count));
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto work = [&words] {
    for (const auto& word : words) {
      if (word == "--help" || word == "-h") {
        fmt::print("{}", kUsage);
        return 0;
      }
    }
    const auto arguments = parse(words);
    return inferno::cli::run_generate(inferno::Model::load(arguments.model), arguments.engine,
                                      arguments.request, {});
  };
  return inferno::cli::run_program(work, kUsage);
}
