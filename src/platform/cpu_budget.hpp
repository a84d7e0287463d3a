#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace inferno {

/// How many threads this process may really run at once, and why.
struct CpuBudget {
  std::uint32_t threads = 1;        ///< max(1, floor(min(processors allowed, quota)))
  std::vector<std::uint32_t> cpus;  ///< processors this process may run on, ascending; ids may have gaps
  std::optional<double> quota;  ///< processors' worth of time that control groups grant; nullopt: no limit
  std::string reason;           ///< one line for people: "2 threads: affinity allows 2 processors, ..."
};

/// Where the numbers come from; tests put something else in their place.
struct CpuBudgetSources {
  std::filesystem::path root = "/";  ///< under which proc/ and sys/ lie
  /// Processors the process may run on; nullopt: asked of the system.
  std::optional<std::vector<std::uint32_t>> affinity;
};

/// Reads affinity and the quotas of the process's control groups (version 1 and 2, the group and all its
/// parents: the smallest counts). Never fails: what cannot be read limits nothing, and the reason says so.
CpuBudget cpu_budget(const CpuBudgetSources& sources = {});

/// A number of threads that was settled on, and why.
struct ThreadChoice {
  std::uint32_t threads = 1;
  std::string reason;   ///< one line for people
  std::string warning;  ///< empty, or why the number is unwise
};

/// `requested` 0 takes the budget; any other number wins, with a warning if it is more than the budget.
ThreadChoice choose_threads(std::uint32_t requested, const CpuBudget& budget);

}  // namespace inferno
