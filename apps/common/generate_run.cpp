#include "common/generate_run.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "common/options.hpp"
#include "common/program.hpp"
#include "common/trace_report.hpp"
#include "engine/trace.hpp"
#include "platform/log.hpp"
#include "platform/quote.hpp"
#include "platform/terminal.hpp"

namespace inferno::cli {
namespace {

/// What a shell says of a program that Ctrl-C ended.

/// The engine that Ctrl-C ends.
std::atomic<Engine*> interruptible = nullptr;
std::atomic<bool> is_interrupted = false;
static_assert(std::atomic<Engine*>::is_always_lock_free, "a signal handler reads it");

extern "C" void on_interrupt(int /*signal*/) {
  is_interrupted = true;
  if (auto* const engine = interruptible.load()) engine->cancel();
  // A second Ctrl-C ends the program at once.
  std::signal(SIGINT, SIG_DFL);
}

/// While it lives, Ctrl-C ends what `engine` generates.
class Interruptible {
 public:
  explicit Interruptible(Engine& engine) {
    interruptible = &engine;
    std::signal(SIGINT, on_interrupt);
  }
  ~Interruptible() {
    std::signal(SIGINT, SIG_DFL);
    interruptible = nullptr;
  }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
};

/// Logs each token on request, and traces stages on request.
class RunObserver : public TraceObserver {
 public:
  explicit RunObserver(const GenerateOutput& output) : output_(output) {}
  bool wants_tokens() const override { return output_.verbose; }
  void token(const TokenRecord& record) override {
    log().info("step {} {} id {} {} probability {:.4f}", record.number, record.prefill ? "prefill" : "decode",
               record.id, quote(record.bytes), record.probability);
  }
  StageObserver* stages(bool prefill) override {
    return output_.trace ? TraceObserver::stages(prefill) : nullptr;
  }

 private:
  const GenerateOutput& output_;
};

/// What makes a drawn text come again; a greedy one needs none.
std::optional<std::uint64_t> seed_of(const Request& request) {
  if (request.sampling.temperature > 0.0F) return request.sampling.seed;
  return std::nullopt;
}

nlohmann::ordered_json to_json(const Generation& generation, const Engine& engine, const Request& request) {
  const auto seed = seed_of(request);
  const auto& times = generation.times;
  return {{"text", generation.text},
          {"ids", generation.ids},
          {"prompt_ids", generation.prompt_ids},
          {"backend", engine.backend()},
          {"kv", engine.options().kv},
          {"time_to_first_token_ms", times.time_to_first_token_ms},
          {"decode_tokens_per_second", times.decode_tokens_per_second},
          {"per_forward_ms",
           {{"min", times.forward_min_ms},
            {"max", times.forward_max_ms},
            {"mean", times.forward_mean_ms},
            {"n", times.forwards}}},
          {"finish_reason", finish_reason_name(generation.finish_reason)},
          {"seed", seed ? nlohmann::ordered_json(*seed) : nlohmann::ordered_json()},
          {"logits_hash", generation.logits_hash.empty() ? nlohmann::ordered_json()
                                                         : nlohmann::ordered_json(generation.logits_hash)}};
}

void print_metrics(const Generation& generation, const Engine& engine, const Request& request) {
  const auto& times = generation.times;
  fmt::print("\nbackend: {} ({})\n", engine.backend(), engine.device());
  fmt::print("kv: {}\n", engine.options().kv);
  fmt::print("tokens: {} prompt, {} generated ({})\n", generation.prompt_ids.size(), generation.ids.size(),
             finish_reason_name(generation.finish_reason));
  fmt::print("time_to_first_token_ms: {:.2f}\n", times.time_to_first_token_ms);
  fmt::print("decode_tokens_per_second: {:.2f}\n", times.decode_tokens_per_second);
  fmt::print("per_forward_ms: min {:.3f} max {:.3f} mean {:.3f} (n={})\n", times.forward_min_ms,
             times.forward_max_ms, times.forward_mean_ms, times.forwards);
  if (const auto seed = seed_of(request)) fmt::print("seed: {}\n", *seed);
  if (!generation.logits_hash.empty()) fmt::print("logits_hash: {}\n", generation.logits_hash);
}

}  // namespace

int run_generate(const Model& model, const EngineOptions& engine_options, const Request& request,
                 const GenerateOutput& output) {
  Engine engine(model, engine_options);
  report_threads(engine.backend(), engine_options.threads);
  if (output.verbose) {
    log().info("{}: {} layers, hidden size {}, vocabulary {}, context {}; {} on {}, kv {}", model.name(),
               model.layers(), model.hidden_size(), model.vocab_size(), model.context_length(),
               engine.backend(), engine.device(), engine.options().kv);
  }
  RunObserver observer(output);
  engine.observe(&observer);
  // On a terminal the text would stand in the middle of the log's lines, so it comes after them.
  const bool is_streamed = !output.json && !(output.verbose && stdout_is_terminal() && stderr_is_terminal());
  // The prompt is printed with the first text, not before: a request that is refused leaves nothing on
  // stdout.
  std::string pending = output.json || !request.prompt_ids.empty() ? std::string() : request.prompt;
  const auto print = [](std::string_view text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  };
  const auto generate = [&] {
    const Interruptible guard(engine);
    return engine.generate(request, [&](std::string_view text) {
      return !is_streamed || (print(std::exchange(pending, {})) && print(text));
    });
  };
  const auto generation = generate();
  print(pending);

  if (output.json) {
    auto json = to_json(generation, engine, request);
    if (!generation.moved_from.empty()) json["moved_from"] = generation.moved_from;
    if (output.trace) json["trace"] = trace_to_json(observer, model.layers());
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    if (!is_streamed) print(generation.text);
    fmt::print("\n");
    print_metrics(generation, engine, request);
    if (output.trace) fmt::print("{}", trace_to_text(observer, model.layers()));
  }
  return is_interrupted ? kInterrupted : 0;
}

}  // namespace inferno::cli
