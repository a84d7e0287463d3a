#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace inferno::scalar {

/// A softmax-weighted sum of value vectors over positions seen so far, without the scores:
///   maximum  = max s,  sum = sum of exp(s - maximum),  weighted = sum of exp(s - maximum) * value.
/// Two of these over different positions merge into one over all of them, so attention needs no score row.
struct PartialSoftmax {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0.0F;
  std::span<float> weighted;  ///< [E]; meaningless while sum is 0

  /// Forgets everything.
  void clear() {
    maximum = -std::numeric_limits<float>::infinity();
    sum = 0.0F;
    for (float& element : weighted) element = 0.0F;
  }

  /// Adds one position: its score and its value [E].
  void add(float score, const float* value) {
    if (score > maximum) {
      // exp(-infinity) = 0 drops the empty start
      rescale(score);
    }
    const float p = std::exp(score - maximum);
    sum += p;
    for (std::size_t i = 0; i < weighted.size(); ++i) weighted[i] += p * value[i];
  }

  /// Adds the positions of `other`, which are not among this one's.
  void merge(const PartialSoftmax& other) {
    if (other.maximum > maximum) rescale(other.maximum);
    const float scale = std::exp(other.maximum - maximum);
    sum += other.sum * scale;
    for (std::size_t i = 0; i < weighted.size(); ++i) weighted[i] += other.weighted[i] * scale;
  }

 private:
  void rescale(float new_maximum) {
    const float scale = std::exp(maximum - new_maximum);
    maximum = new_maximum;
    sum *= scale;
    for (float& element : weighted) element *= scale;
  }
};

}  // namespace inferno::scalar
