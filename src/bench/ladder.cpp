#include "bench/ladder.hpp"

#include "platform/cpu_budget.hpp"
#include "platform/log.hpp"

namespace inferno::bench {
namespace {

/// The machine is measured with as many threads as a backend may use: with those asked for, else the budget.
MachineLimits measure(const LoadedModel& model, const BackendOptions& options) {
  return measure_machine(choose_threads(options.threads, cpu_budget()).threads, model.file.total_bytes());
}

}  // namespace

std::vector<std::string> ladder_backends() {
  return {"scalar", "simd", "parallel", "pool"};
}

Result run_backend(std::string_view backend, const LoadedModel& model, const BackendOptions& options,
                   const Workload& workload) {
  // The executor first: if there is none, nothing needs to be measured.
  const auto executor = create_executor(backend, model, options);
  check(workload, model.config, executor->capabilities());
  const auto before = measure(model, options);
  auto result = run(model, *executor, workload, before);
  set_shares(result, best_of(before, measure(model, options)));
  return result;
}

std::vector<LadderEntry> run_ladder(std::span<const std::string> backends, const LoadedModel& model,
                                    const BackendOptions& options, const Workload& workload) {
  std::vector<LadderEntry> ladder;
  std::optional<MachineLimits> machine;
  for (const auto& backend : backends) {
    auto& entry = ladder.emplace_back();
    entry.backend = backend;
    try {
      entry.result = run_backend(backend, model, options, workload);
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      entry.reason = error.what();
      continue;
    }
    machine = machine ? best_of(*machine, entry.result->machine) : entry.result->machine;
  }
  for (auto& entry : ladder) {
    if (entry.result) set_shares(*entry.result, *machine);
  }
  return ladder;
}

}  // namespace inferno::bench
