#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <inferno/model.hpp>
#include <inferno/request.hpp>

namespace inferno {

/// How an engine runs a model.
struct EngineOptions {
  std::string backend = "auto";              ///< see `inferno backends`
  std::optional<std::uint32_t> device = {};  ///< index among the backend's devices; none: the best of them
  std::uint32_t threads = 0;                 ///< CPU backends; 0: what quota and affinity allow
  std::string kv = "paged";                  ///< none | basic | paged
  std::uint32_t context =
      0;  ///< positions of a sequence; 0: what each request needs, up to the model's context
  std::uint32_t steps_per_submit = 1;  ///< decode steps chained in one submission
  std::uint32_t prefill_chunk = 512;   ///< most prompt tokens in one submission
};

class GenerationObserver;

/// Generates text with one model on one backend. One request at a time.
class Engine {
 public:
  /// Throws UsageError for an unknown backend or kind of cache, Error with the reason if the backend cannot
  /// run here.
  explicit Engine(Model model, EngineOptions options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  /// Runs a request to its end; `on_text` may be empty. Throws UsageError for settings out of range or a
  /// prompt longer than the context, Error if the backend fails.
  Generation generate(const Request& request, const TextCallback& on_text = {});
  /// Asks a running `generate` to end soon; from any thread, or a signal handler.
  void cancel() noexcept;

  const Model& model() const;
  const EngineOptions& options() const;
  /// The backend that really runs ("auto" resolved), and on what.
  const std::string& backend() const;
  const std::string& device() const;

  /// Watches generations from inside inferno (step log, trace); nullptr: nobody. Must outlive its use.
  void observe(GenerationObserver* observer);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inferno
