#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/registry.hpp"
#include "bench/bench.hpp"

namespace inferno::bench {

/// The CPU backends in the order in which each adds something to the one before.
std::vector<std::string> ladder_backends();

/// One backend's result, or why there is none.
struct LadderEntry {
  std::string backend;
  std::optional<Result> result;
  std::string reason;  ///< empty if there is a result
};

/// Benchmarks a backend by name, measuring the machine before and after; the higher figures count. Throws as
/// create_executor and run do.
Result run_backend(std::string_view backend, const LoadedModel& model, const BackendOptions& options,
                   const Workload& workload);

/// The same for each of `backends`. All shares are against the best the machine showed in all of it. A
/// backend that is not available has its reason instead. Throws UsageError for a workload that makes no
/// sense.
std::vector<LadderEntry> run_ladder(std::span<const std::string> backends, const LoadedModel& model,
                                    const BackendOptions& options, const Workload& workload);

}  // namespace inferno::bench
