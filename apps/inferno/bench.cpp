#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "bench/ladder.hpp"
#include "bench/report.hpp"
#include "command.hpp"
#include "common/options.hpp"
#include "platform/log.hpp"

namespace inferno::cli {
namespace {

struct BenchOptions {
  ModelOption model;
  EngineOptionGroup engine;
  bench::Workload workload;
  bool ladder = false;
  bool json = false;
};

template <typename Report>
void print(const Report& report, bool json) {
  if (json) {
    fmt::print("{}\n", bench::to_json(report).dump(2));
  } else {
    fmt::print("{}", bench::to_text(report));
  }
}

/// More than the machine can do was done: it could do more at another moment.
void warn_of_disturbance(const bench::Result& result) {
  constexpr double kBelievable = 1.1;
  if (std::max(result.prefill_share, result.decode_share) < kBelievable) return;
  log().warn(
      "{} reached more than the machine's limit: something else ran while the limit was measured; "
      "measure again on an idle machine",
      result.backend);
}

int run(const BenchOptions& options) {
  auto workload = options.workload;
  workload.kv = parse_kv_kind(options.engine.options.kv);
  workload.context = options.engine.options.context;
  workload.steps_per_submit = options.engine.options.steps_per_submit;
  workload.prefill_chunk = options.engine.options.prefill_chunk;
  const BackendOptions backend{.device = options.engine.options.device,
                               .threads = options.engine.options.threads};
  const LoadedModel model(options.model.resolved(), {.map = !options.model.no_mmap});
  if (!options.ladder) {
    const auto result = bench::run_backend(options.engine.options.backend, model, backend, workload);
    report_threads(result.backend, backend.threads);
    warn_of_disturbance(result);
    print(result, options.json);
    return 0;
  }
  const auto backends = bench::ladder_backends();
  const auto ladder = bench::run_ladder(backends, model, backend, workload);
  report_threads("pool", backend.threads);
  for (const auto& entry : ladder) {
    if (entry.result) warn_of_disturbance(*entry.result);
  }
  print(std::span<const bench::LadderEntry>(ladder), options.json);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand(
      "bench", "measure prefill and decode, each beside what the machine could do at best");
  const auto options = std::make_shared<BenchOptions>();
  auto& workload = options->workload;
  options->model.add_to(*command);
  command
      ->add_option("--prompt", workload.prompt,
                   "tokens of each sequence, prefilled together from an empty cache (0: no prefill)")
      ->capture_default_str();
  command->add_option("--gen", workload.gen, "tokens decoded for each sequence (0: no decode)")
      ->capture_default_str();
  command->add_option("--depth", workload.depth,
                      "positions that each cache holds before the first decoded token (0: decoding starts "
                      "from one token; default: "
                      "what --prompt left)");
  command->add_option("--rows", workload.rows, "sequences side by side")->capture_default_str();
  command->add_option("--repeats", workload.repeats, "runs of each, after one that warms up; medians count")
      ->capture_default_str();
  options->engine.add_to(*command);
  command->add_flag("--ladder", options->ladder, "scalar, simd, parallel and pool side by side")
      ->excludes("--backend");
  command->add_option("--seed", workload.seed, "of the random tokens")->capture_default_str();
  command->add_flag("--json", options->json, "as JSON");
  add_verbose(*command);
  set_examples(*command,
               "  inferno bench\n"
               "  inferno bench --ladder\n"
               "  inferno bench -m Qwen3-0.6B-Q8_0.gguf --prompt 511 --gen 32 --depth 4096 --json\n"
               "  inferno bench --prompt 0 --depth 0 --gen 128 --rows 8");
  command->callback([&action, options] { action = [options] { return run(*options); }; });
}

}  // namespace inferno::cli
