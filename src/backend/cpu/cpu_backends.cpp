#include "backend/cpu/cpu_backends.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>

#include "backend/cpu/contract/executor.hpp"
#include "backend/cpu/kernels/kernel_set.hpp"
#include "backend/cpu/parallel/policy.hpp"
#include "platform/cpu_budget.hpp"
#include "platform/log.hpp"

namespace inferno::cpu {
namespace {

std::unique_ptr<ParallelPolicy> make_policy(Threading threading, unsigned threads, unsigned available) {
  switch (threading) {
    case Threading::spawning:
      return make_spawning_policy(threads);
    case Threading::pool:
      return make_pool_policy(threads, available);
    case Threading::serial:
      break;
  }
  return make_serial_policy();
}

/// The executor, with `outside` or without.
Offer make(std::string_view name, Threading threading, const LoadedModel& model,
           const BackendOptions& options, std::unique_ptr<OutsideProducts> outside) {
  const auto budget = cpu_budget();
  std::uint32_t threads = 1;
  if (threading != Threading::serial) {
    const auto choice = choose_threads(options.threads, budget);
    if (!choice.warning.empty()) log().warn("{}", choice.warning);
    threads = choice.threads;
  }
  try {
    return {
        std::make_unique<CpuExecutor>(std::string(name), model, best_kernel_set(),
                                      make_policy(threading, threads, budget.threads), std::move(outside)),
        {}};
  } catch (const std::system_error& error) {
    return {nullptr, fmt::format("{} threads could not be started: {}", threads, error.what())};
  }
}

}  // namespace

BackendStatus probe(std::string_view name, Threading threading) {
  const auto budget = cpu_budget();
  const auto threads = threading == Threading::serial ? 1 : budget.threads;
  const auto why = threading == Threading::serial ? std::string() : fmt::format(" ({})", budget.reason);
  return {
      std::string(name),
      true,
      fmt::format("{} thread{}, {} kernels{}", threads, threads == 1 ? "" : "s", best_kernel_set().name, why),
      {}};
}

Offer create(std::string_view name, Threading threading, const LoadedModel& model,
             const BackendOptions& options) {
  return make(name, threading, model, options, nullptr);
}

Offer create_hybrid(std::string_view name, const LoadedModel& model, const BackendOptions& options,
                    std::unique_ptr<OutsideProducts> outside) {
  return make(name, Threading::pool, model, options, std::move(outside));
}

}  // namespace inferno::cpu
