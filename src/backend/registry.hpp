#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/loaded_model.hpp"
#include "step/executor.hpp"

namespace inferno {

struct BackendOptions {
  /// Index among the backend's devices; without one the backend takes the best, but never a CPU as a GPU.
  std::optional<std::uint32_t> device = {};
  std::uint32_t threads = 0;  ///< CPU backends; 0: what quota and affinity allow
};

/// An executor, or the reason why there is none.
struct Offer {
  std::unique_ptr<Executor> executor;
  std::string reason;  ///< empty if there is an executor
};

/// One line of `inferno backends`.
struct BackendStatus {
  std::string name;
  bool available = false;
  std::string device;  ///< empty if unavailable
  std::string reason;  ///< empty if available
};

/// Every backend name a user may give, in the order of the documentation, with what it would run on here.
std::vector<BackendStatus> list_backends();

/// The executor of a backend by its name ("scalar", ..., "gpu", "auto"). `auto` and `gpu` take the best that
/// works and log in one line why the better ones did not. A name given explicitly never falls back: throws
/// Error with its reason; an unknown name throws UsageError naming the known ones. The model outlives the
/// executor.
std::unique_ptr<Executor> create_executor(std::string_view name, const LoadedModel& model,
                                          const BackendOptions& options = {});

}  // namespace inferno
