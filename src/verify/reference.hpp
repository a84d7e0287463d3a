#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/loaded_model.hpp"

namespace inferno::verify {

/// Roundings of the arithmetic contract that can be switched on one by one, to see what each costs by itself.
/// Blocks of 32 are rounded to 127 steps of their largest magnitude.
struct Roundings {
  bool activations = false;  ///< what enters a product with a matrix in a block format
  bool queries = false;      ///< after the rotary embedding
  bool keys = false;         ///< as the cache keeps them
  bool values = false;       ///< as the cache keeps them
  /// Attention weights times a block's value scale, to 32,767 steps of the largest in a split of 256
  /// positions.
  bool attention_weights = false;
};

/// Qwen3 in double precision, written down once more from the model's description, straightforward and slow:
/// the whole sequence at once, a score matrix per head, weights decoded by this module's own definitions. It
/// shares nothing with the backends but the file reader, so a fault in one of them shows as a difference.
///
/// Returns the logits of every position, [ids.size()][V]. Matrix rows are split over `threads`, which changes
/// no result. `progress` is told (layers done, layers + 1 for the head).
std::vector<double> reference_logits(const LoadedModel& model, std::span<const std::int32_t> ids,
                                     Roundings roundings, std::uint32_t threads,
                                     const std::function<void(std::uint64_t, std::uint64_t)>& progress = {});

}  // namespace inferno::verify
