#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace inferno {

/// What turns a logit into a log-probability: both are of one list of logits.
struct LogNormalizer {
  double largest = 0;
  double log_sum = 0;  ///< ln of the sum of exp(logit - largest)

  /// The natural logarithm of the probability that belongs to a logit of the list.
  float log_probability(float logit) const;
};

/// In double, the largest logit taken out so that nothing overflows. Logits at +infinity share all the mass.
/// No NaN among them, and at least one above -infinity.
LogNormalizer log_normalizer(std::span<const float> logits);

/// The ids of the `count` largest logits (all, if there are fewer), largest first, ties by lower id, into
/// `ids`.
void largest_logits(std::span<const float> logits, std::size_t count, std::vector<std::int32_t>& ids);

}  // namespace inferno
