#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <inferno/error.hpp>
#include <inferno/model.hpp>

#include "engine/request_stream.hpp"
#include "engine/serving_metrics.hpp"
#include "engine/serving_request.hpp"
#include "step/executor.hpp"

namespace inferno {

/// The queue is full; try again later (HTTP 429).
class QueueFull : public Error {
 public:
  using Error::Error;
};

/// The prompt cannot fit the context, or the cache (HTTP 400, context_length_exceeded). `what` has both
/// numbers.
class ContextExceeded : public UsageError {
 public:
  ContextExceeded(const std::string& message, std::uint64_t tokens_asked, std::uint64_t tokens_limit)
      : UsageError(message), asked(tokens_asked), limit(tokens_limit) {}
  std::uint64_t asked;
  std::uint64_t limit;
};

/// The engine is draining, was stopped, or lost its executor (HTTP 503).
class EngineStopped : public Error {
 public:
  using Error::Error;
};

struct ServingOptions {
  std::string backend = "auto";              ///< see `inferno backends`
  std::optional<std::uint32_t> device = {};  ///< index among the backend's devices; none: the best of them
  std::uint32_t threads = 0;                 ///< CPU backends; 0: what quota and affinity allow

  std::uint32_t context = 0;  ///< positions of a request; 0: what the model was trained for
  std::uint32_t block_size =
      16;  ///< positions per cache block; divides 256. Prefixes are shared in whole blocks
  std::uint32_t kv_blocks =
      0;  ///< 0: room for max_rows contexts, but at most kv_bytes, and at least one context
  std::uint64_t kv_bytes = std::uint64_t{1} << 30;  ///< see kv_blocks

  std::uint32_t max_rows = 64;      ///< requests that take part in a step
  std::uint32_t max_queue = 256;    ///< requests that wait beside those; one more is refused with QueueFull
  std::uint32_t step_tokens = 512;  ///< most tokens of a step: decoding rows first, the rest are prompts
  /// While requests decode, prompts take so much of a step that it lasts at most about this many times what
  /// decoding rows alone needed of late (but 2 tokens in any case, so that prompts go on). 0: step_tokens
  /// alone decides.
  double step_stretch = 2;
  /// Who waits starts when the cache has room for it and for this many further tokens of every running
  /// request, so that few are paused soon after. Doubles for a request each time it is paused.
  std::uint32_t lookahead = 32;

  bool prefix_cache = true;
  std::uint32_t buffered_tokens = 256;  ///< held per request for a slow consumer, see RequestStream
  std::chrono::milliseconds stall_timeout{30'000};

  /// Makes another executor when one is lost; nullptr, an exception or one without room: requests fail. The
  /// default takes a CPU backend of the same arithmetic.
  std::function<std::unique_ptr<Executor>()> failover = {};
};

/// Runs many requests at once with one model on one executor. A worker thread forms each step: a token for
/// every request that decodes, then pieces of prompts. Requests join and leave at every step.
///
/// What a request gets does not depend on the others, on how its prompt was cut, on what the cache held or on
/// pauses: text, ids and log-probabilities are those of the request alone, bit for bit.
///
/// All calls may come from any thread.
class ServingEngine {
 public:
  /// Makes the executor and reserves everything; nothing large is allocated later. Throws UsageError for
  /// options that make no sense, Error if the backend cannot run or the memory cannot be had (with both
  /// numbers).
  explicit ServingEngine(Model model, ServingOptions options = {});
  /// With an executor made by somebody else (not reserved yet) for this model.
  ServingEngine(Model model, std::unique_ptr<Executor> executor, ServingOptions options = {});
  /// Stops.
  ~ServingEngine();
  ServingEngine(const ServingEngine&) = delete;
  ServingEngine& operator=(const ServingEngine&) = delete;

  /// Takes a request in. Throws UsageError for what makes no sense (HTTP 400), ContextExceeded, QueueFull,
  /// EngineStopped; also Error for an option that the executor lacks. Encoding the prompt is done here, in
  /// the caller's thread.
  RequestStream submit(ServingRequest request);
  /// Takes all of them in, or none; choices of one prompt run it once.
  std::vector<RequestStream> submit(std::vector<ServingRequest> requests);

  /// The ids that `submit` makes of a request's prompt; throws the same.
  std::vector<TokenId> prompt_of(const ServingRequest& request) const;

  ServingMetrics metrics() const;
  const Model& model() const;
  const ServingOptions& options() const;  ///< with all defaults filled in

  /// Takes no more requests and waits until those that are in have ended, at most `timeout`. Returns whether
  /// they have; the others go on until `stop`. Consumers must keep taking.
  bool drain(std::chrono::milliseconds timeout);
  /// Takes no more requests, ends all (RequestEnd::shutdown) and the worker. May be called again.
  void stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inferno
