#pragma once

#include <cstdint>

#include "model/weights.hpp"
#include "step/executor.hpp"

namespace inferno::bench {

/// Bytes of weights that one step reads, each once, as the file stores them: every matrix and norm of every
/// layer, the final norm, the LM head, and for each row one row of the embedding; the whole embedding only
/// where it is also the head (the rows are then part of it). Norms are counted as float32, which is how every
/// backend holds them.
std::uint64_t weight_bytes_per_step(const ModelWeights& weights, bool tied_head, std::uint32_t rows);

/// Bytes that the executor's cache takes for one position: keys and values of all layers, scales included.
double cache_bytes_per_position(const Executor& executor, const Limits& limits);

/// Positions of cache that decoding reads, mean of `gen` steps from `depth` on: step s attends to depth + s
/// positions before it and to its own.
double positions_read_per_step(std::uint32_t depth, std::uint32_t gen);

/// Multiplies and adds of matrix products, by the arithmetic they are done in.
struct Operations {
  double int8 = 0;
  double float32 = 0;

  double total() const { return int8 + float32; }
};

/// Matrix products of a prefill of `rows` x `prompt` tokens: two operations for each weight of the layers and
/// token, and for each weight of the head and row (only the last position needs logits). Attention, norms and
/// the like are not counted: they are what keeps a backend from its peak. A contract backend multiplies block
/// formats in int8 and float formats in float32; `scalar` everything in float32.
Operations prefill_operations(const ModelWeights& weights, bool contract, std::uint32_t rows,
                              std::uint32_t prompt);

}  // namespace inferno::bench
