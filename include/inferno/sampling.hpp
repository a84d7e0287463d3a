#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace inferno {

/// How a token is chosen from its logits. The defaults are greedy.
///
/// One documented order, the same on every backend and in every combination:
///   1. logit bias, 2. repetition penalty, 3. presence penalty, 4. frequency penalty, 5. temperature,
///   6. top-k, 7. top-p, 8. min-p, 9. draw.
/// Temperature below `kGreedyBelow` is greedy over the biased and penalized logits, whatever else is
/// set. Ties go to the lower id everywhere: in greedy choice and at the edge of top-k and top-p. Every
/// filter keeps at least the most likely id. A logit of -infinity is never chosen; one of +infinity
/// beats every finite one; a NaN is an error.
struct SamplingSettings {
  /// Below this a temperature is greedy: a draw could differ only between logits closer than about a
  /// hundredth, and users who write 1e-4 mean "always the best".
  static constexpr float kGreedyBelow = 1e-3F;

  float temperature = 0.0F;  ///< >= 0, finite; logits are divided by it; 0 (below kGreedyBelow): greedy
  std::int32_t top_k = 0;    ///< >= 0; keep the k most likely; 0 or at least the vocabulary: off
  float top_p = 1.0F;        ///< in [0, 1]; keep the smallest set of most likely ids with at least this
                             ///< share of what top-k kept; 1: off; 0: the most likely one
  float min_p = 0.0F;        ///< in [0, 1]; keep ids at least this likely relative to the best; 0: off
  float repetition_penalty = 1.0F;  ///< > 0, finite; positive logits are multiplied by 1 / it, others by it,
                                    ///< once for each distinct id of the prompt or generated before
  float presence_penalty = 0.0F;    ///< in [-100, 100]; subtracted once from ids generated before
  float frequency_penalty = 0.0F;   ///< in [-100, 100]; subtracted per earlier generation of the id
  std::uint64_t seed = 0;           ///< key of the random stream; with the position it fixes each draw
  /// (id, added): id in [0, vocabulary), value in [-100, 100]. -100 bans the id at any temperature.
  /// Several entries for one id add up.
  std::vector<std::pair<std::int32_t, float>> logit_bias = {};
};

}  // namespace inferno
