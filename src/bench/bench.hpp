#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/counts.hpp"
#include "bench/machine_limits.hpp"
#include "kv/sequence_cache.hpp"
#include "model/loaded_model.hpp"
#include "step/executor.hpp"

namespace inferno::bench {

/// What is measured: two things, each on its own.
/// Prefill: `rows` sequences of `prompt` random tokens from an empty cache, together, at most `prefill_chunk`
/// tokens in a submission; ends with the first token chosen for each.
/// Decode: `gen` tokens for each of `rows` sequences whose caches hold `depth` positions already (0: decoding
/// starts from one token). Depths beyond the prompt are filled once, by prefilling random tokens in the first
/// row and copying its blocks to the others, and used again by every repeat.
struct Workload {
  std::uint32_t rows = 1;
  std::uint32_t prompt = 128;  ///< 0: no prefill is measured
  std::uint32_t gen = 64;      ///< 0: no decode is measured
  std::optional<std::uint32_t> depth =
      std::nullopt;  ///< nullopt: `prompt`, decoding goes on where the prompt ends
  std::uint32_t repeats = 5;
  std::uint64_t seed = 42;  ///< of the random tokens
  std::uint32_t steps_per_submit = 1;
  std::uint32_t prefill_chunk = 512;
  std::uint32_t context = 0;  ///< positions of a sequence; 0: what is needed, up to the model's context
  KvKind kv = KvKind::paged;

  std::uint32_t depth_or_prompt() const { return depth.value_or(prompt); }
};

/// One figure over the repeats.
struct Spread {
  double median = 0, min = 0, max = 0;
};

/// What was measured and what it is worth. Bytes and operations are the mathematics' own (see counts.hpp),
/// the same for every backend; only the cache's bytes per position depend on the backend's cache format.
struct Result {
  std::string backend, device, model, cache_format;
  std::uint32_t layers = 0;
  Workload workload;
  MachineLimits machine;
  Spread prefill_tokens_per_second;  ///< all rows together; zeros if not measured
  Spread decode_tokens_per_second;   ///< all rows together; zeros if not measured
  Operations prefill_operations;     ///< of one repeat
  double prefill_gops = 0;           ///< those per second, 1e9
  double prefill_share = 0;  ///< time they would take at the machine's peaks / time they took; 0: not known
  std::uint64_t weight_bytes_per_step = 0;
  double cache_bytes_per_step = 0;  ///< mean over the decode steps, all rows
  double decode_gb_per_second = 0;
  /// Median over the repeats of the part of the read bandwidth that was reached, measured directly before and
  /// after each of them; the median of those measurements is machine.read_gb_per_second.
  double decode_share = 0;  ///< 0: not known
  double submissions_per_token = 0, stages_per_token = 0, dispatches_per_token = 0;
};

/// Throws UsageError if the workload makes no sense, does not fit the context (naming the numbers) or asks
/// for what the backend cannot do.
void check(const Workload& workload, const ModelConfig& config, const Capabilities& capabilities);

/// Checks, and reserves the executor anew. Throws Error if there is no room.
void prepare(const LoadedModel& model, Executor& executor, const Workload& workload);

/// Warms up and measures with an executor that was prepared for the workload, the machine's limits in
/// between.
Result run(const LoadedModel& model, Executor& executor, const Workload& workload, Machine& machine);

}  // namespace inferno::bench
