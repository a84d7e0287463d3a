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
  /// Whether the number may name a CPU that poses as a GPU; `auto` and `gpu` set this to false.
  bool software = true;
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
  /// Of backends with devices: all that `BackendOptions::device` may name, by number, whether one of them is
  /// taken by default or not.
  std::vector<std::string> devices = {};
};

/// Every backend name a user may give, in the order of the documentation, with what it would run on here.
std::vector<BackendStatus> list_backends();

/// Whether a backend of that name takes as many threads as it is told; false for a choice between backends.
bool takes_threads(std::string_view backend);

struct Backend;  // registry.cpp

/// The backends that a name stands for, asked one after the other until one can do what is wanted: several
/// for `auto` and `gpu`, one for every other name, which never falls back.
class BackendChoice {
 public:
  /// Throws UsageError for an unknown name, naming the known ones, and for options out of range. `model`
  /// outlives the choice and its executors.
  BackendChoice(std::string_view name, const LoadedModel& model, const BackendOptions& options = {});

  /// The executor of the first backend that has one. Called again, of the first behind that; `why`: what the
  /// one before could not do. It should be gone by then: its memory may be needed. Throws Error with the
  /// reasons of all if none is left.
  std::unique_ptr<Executor> next(std::string_view why = {});
  /// Whether another is worth asking where what was given last fails: it runs on a device, and there is more
  /// to choose from.
  bool may_go_on() const;
  /// `why` what was given last cannot be used, behind the reasons of those that it replaced.
  std::string all_reasons(std::string_view why) const;
  /// What was given last is used: says in one line why those before it are not, unless that was said before.
  void settle();

 private:
  void add_reason(const Backend& backend, std::string_view reason);
  const Backend& given() const { return *order_[next_ - 1]; }

  std::string name_;
  const LoadedModel* model_;
  BackendOptions options_;
  std::vector<const Backend*> order_;
  bool leaves_choice_ = false;
  std::size_t next_ = 0;       // of order_
  std::string reasons_;        // "cuda: not part of this build; vulkan: no device"
  bool has_replaced_ = false;  // an executor was given and could not be used
  std::string said_;           // reasons that were logged
};

/// Does with `executor`, which `choice` gave, what may fail for want of memory. If it fails and there is more
/// to choose from, the next executor takes the place of it. Throws what `use` does where nothing is left
/// (with the reasons of all that were tried), and UsageError at once; `executor` can be empty then.
void use_or_replace(BackendChoice& choice, std::unique_ptr<Executor>& executor,
                    const std::function<void(Executor&)>& use);

/// The executor of a backend by its name ("scalar", ..., "gpu", "auto"). `auto` and `gpu` take the best that
/// works and log in one line why the better ones did not; a device's number is asked of GPUs only. A name
/// given explicitly never falls back: throws Error with its reason; an unknown name throws UsageError naming
/// the known ones. The model outlives the executor.
std::unique_ptr<Executor> create_executor(std::string_view name, const LoadedModel& model,
                                          const BackendOptions& options = {});

}  // namespace inferno
