#include "bench/ladder.hpp"

#include "bench/device_machine.hpp"
#include "platform/cpu_budget.hpp"
#include "platform/log.hpp"

namespace inferno::bench {

std::vector<std::string> ladder_backends() {
  return {"scalar", "simd", "parallel", "pool"};
}

Result run_backend(std::string_view backend, const LoadedModel& model, const BackendOptions& options,
                   const Workload& workload) {
  // The executor first: if there is none, nothing needs to be measured.
  BackendChoice choice(backend, model, options);
  auto executor = choice.next();
  use_or_replace(choice, executor, [&](Executor& candidate) { prepare(model, candidate, workload); });
  // Never mind the processors where the work is done elsewhere.
  if (auto* on_device = dynamic_cast<OnDevice*>(executor.get())) {
    DeviceMachine machine(on_device->device_meter(model.file.total_bytes()));
    return run(model, *executor, workload, machine);
  }
  // With as many threads as a backend may use: with those asked for, else the budget.
  MachineProbe machine(choose_threads(options.threads, cpu_budget()).threads, model.file.total_bytes());
  return run(model, *executor, workload, machine);
}

std::vector<LadderEntry> run_ladder(std::span<const std::string> backends, const LoadedModel& model,
                                    const BackendOptions& options, const Workload& workload) {
  std::vector<LadderEntry> ladder;
  for (const auto& backend : backends) {
    auto& entry = ladder.emplace_back();
    entry.backend = backend;
    try {
      entry.result = run_backend(backend, model, options, workload);
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      entry.reason = error.what();
    }
  }
  return ladder;
}

}  // namespace inferno::bench
