#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace inferno {

/// How a token is chosen from its logits. The defaults are greedy.
///
/// One documented order, the same on every backend: logit bias; repetition, then presence and
/// frequency penalties; temperature; top-k; top-p; min-p; draw. Temperature 0 is greedy over the
/// biased and penalized logits, whatever else is set. At least one candidate always survives.
struct SamplingSettings {
  float temperature = 0.0F;         ///< >= 0, finite; 0: greedy
  std::int32_t top_k = 0;           ///< keep the k most likely; 0: off; larger than the vocabulary: off
  float top_p = 1.0F;               ///< keep the smallest set with at least this mass; in [0, 1]
  float min_p = 0.0F;               ///< keep ids at least this likely relative to the best; in [0, 1]
  float repetition_penalty = 1.0F;  ///< > 0; over prompt and generated ids, once per distinct id
  float presence_penalty = 0.0F;    ///< subtracted once from ids generated before
  float frequency_penalty = 0.0F;   ///< subtracted per earlier generation of the id
  std::uint64_t seed = 0;           ///< key of the random stream together with the position
  std::vector<std::pair<std::int32_t, float>> logit_bias;  ///< (id, added); -100 or less bans the id
};

}  // namespace inferno
