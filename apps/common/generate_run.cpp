#include "common/generate_run.hpp"

#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/trace_report.hpp"
#include "engine/trace.hpp"
#include "platform/log.hpp"

namespace inferno::cli {
namespace {

/// The engine that Ctrl-C ends; set while one generates.
Engine* interruptible = nullptr;

extern "C" void on_interrupt(int /*signal*/) {
  if (interruptible != nullptr) interruptible->cancel();
  // A second Ctrl-C ends the program at once.
  std::signal(SIGINT, SIG_DFL);
}

/// Bytes of a token as a log can show them: control characters escaped.
std::string printable(const std::string& bytes) {
  return nlohmann::json(bytes).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Logs each token on request, and traces stages on request.
class RunObserver : public TraceObserver {
 public:
  explicit RunObserver(const GenerateOutput& output) : output_(output) {}
  bool wants_tokens() const override { return output_.verbose; }
  void token(const TokenRecord& record) override {
    log().info("step {} {} id {} {} probability {:.4f}", record.number, record.prefill ? "prefill" : "decode",
               record.id, printable(record.bytes), record.probability);
  }
  StageObserver* stages(bool prefill) override {
    return output_.trace ? TraceObserver::stages(prefill) : nullptr;
  }

 private:
  const GenerateOutput& output_;
};

nlohmann::ordered_json to_json(const Generation& generation, const Engine& engine) {
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
          {"logits_hash", generation.logits_hash.empty() ? nlohmann::ordered_json()
                                                         : nlohmann::ordered_json(generation.logits_hash)}};
}

void print_metrics(const Generation& generation, const Engine& engine) {
  const auto& times = generation.times;
  fmt::print("\nbackend: {} ({})\n", engine.backend(), engine.device());
  fmt::print("kv: {}\n", engine.options().kv);
  fmt::print("tokens: {} prompt, {} generated ({})\n", generation.prompt_ids.size(), generation.ids.size(),
             finish_reason_name(generation.finish_reason));
  fmt::print("time_to_first_token_ms: {:.2f}\n", times.time_to_first_token_ms);
  fmt::print("decode_tokens_per_second: {:.2f}\n", times.decode_tokens_per_second);
  fmt::print("per_forward_ms: min {:.3f} max {:.3f} mean {:.3f} (n={})\n", times.forward_min_ms,
             times.forward_max_ms, times.forward_mean_ms, times.forwards);
  if (!generation.logits_hash.empty()) fmt::print("logits_hash: {}\n", generation.logits_hash);
}

}  // namespace

int run_generate(const Model& model, const EngineOptions& engine_options, const Request& request,
                 const GenerateOutput& output) {
  Engine engine(model, engine_options);
  if (output.verbose) {
    log().info("{}: {} layers, hidden size {}, vocabulary {}, context {}; {} on {}, kv {}", model.name(),
               model.layers(), model.hidden_size(), model.vocab_size(), model.context_length(),
               engine.backend(), engine.device(), engine.options().kv);
  }
  RunObserver observer(output);
  engine.observe(&observer);
  interruptible = &engine;
  std::signal(SIGINT, on_interrupt);
  // The prompt is printed with the first text, not before: a request that is refused leaves nothing on
  // stdout.
  std::string pending = output.json || !request.prompt_ids.empty() ? std::string() : request.prompt;
  const auto print = [](std::string_view text) {
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  };
  const auto generation = engine.generate(request, [&](std::string_view text) {
    if (output.json) return true;
    return print(std::exchange(pending, {})) && print(text);
  });
  print(pending);
  std::signal(SIGINT, SIG_DFL);
  interruptible = nullptr;

  if (output.json) {
    auto json = to_json(generation, engine);
    if (output.trace) json["trace"] = trace_to_json(observer, model.layers());
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else {
    fmt::print("\n");
    print_metrics(generation, engine);
    if (output.trace) fmt::print("{}", trace_to_text(observer, model.layers()));
  }
  return 0;
}

}  // namespace inferno::cli
