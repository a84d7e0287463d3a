#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/latency_histogram.hpp"
#include "engine/serving_request.hpp"

namespace inferno {

/// A snapshot of what the serving engine does and did. Counters only grow.
struct ServingMetrics {
  // Now.
  std::uint32_t queued = 0;                        ///< submitted and not yet started
  std::uint32_t paused = 0;                        ///< lost their blocks and wait to go on
  std::uint32_t stalled = 0;                       ///< wait for their consumer
  std::uint32_t running = 0;                       ///< take part in steps
  std::uint32_t decoding = 0;                      ///< of those, the ones whose prompt is done
  std::uint32_t batch_rows = 0, batch_tokens = 0;  ///< of the latest step

  // Cache blocks: total = free + cached + in_use.
  std::uint32_t block_size = 0;  ///< positions
  std::uint32_t blocks_total = 0;
  std::uint32_t blocks_free = 0;
  std::uint32_t blocks_cached = 0;  ///< hold a prefix that no running request uses; taken when needed
  std::uint32_t blocks_in_use = 0;

  // Since the start.
  std::uint64_t submitted = 0;              ///< accepted requests
  std::uint64_t refused = 0;                ///< submissions, of one or many, for which the queue was full
  std::array<std::uint64_t, 6> ended = {};  ///< by RequestEnd
  std::uint64_t steps = 0;
  std::uint64_t step_microseconds = 0;  ///< time in the executor
  std::uint64_t host_microseconds = 0;  ///< the worker's time outside it while there was work
  std::uint64_t rows = 0;               ///< of all steps together: rows / steps is the mean batch size
  std::uint64_t prompt_tokens = 0;      ///< of requests that started
  // Of requests whose prompt is done: prompt + recomputed = cached + prefilled.
  std::uint64_t prefilled_tokens = 0;   ///< of prompts, and computed again: all that were run to no new token
  std::uint64_t recomputed_tokens = 0;  ///< of those, after a pause or on another executor
  std::uint64_t generated_tokens = 0;
  std::uint64_t cached_prompt_tokens = 0;          ///< not run because the cache had them
  std::uint64_t cache_hits = 0, cache_misses = 0;  ///< full blocks of prompts that were found / not found
  std::uint64_t evictions = 0;                     ///< cached blocks given to somebody else
  std::uint64_t pauses = 0;                        ///< because blocks ran out
  std::uint64_t stalls = 0;                        ///< because a consumer did not read
  std::uint64_t failovers = 0;                     ///< executors lost and replaced
  LatencyHistogram queue_time;           ///< of requests that ended: from submission to their first step
  LatencyHistogram first_token_time;     ///< from submission to the first token, or the embedding
  LatencyHistogram between_tokens_time;  ///< of one request
  LatencyHistogram total_time;           ///< of requests that ended: from submission to the end

  // What was set up.
  std::uint32_t context_limit = 0;  ///< positions of a request, prompt and completion together
  std::uint32_t max_rows = 0;
  std::uint32_t max_queue = 0;
  std::string backend, device;
  std::string broken;  ///< why nothing is accepted any more; empty while all is well
};

}  // namespace inferno
