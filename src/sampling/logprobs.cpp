#include "sampling/logprobs.hpp"

#include <algorithm>
#include <cmath>

namespace inferno {

float LogNormalizer::log_probability(float logit) const {
  // Equals apart, because infinity minus infinity is NaN.
  const auto value = static_cast<double>(logit);
  return static_cast<float>((value == largest ? 0.0 : value - largest) - log_sum);
}

LogNormalizer log_normalizer(std::span<const float> logits) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) {
    const auto value = static_cast<double>(logit);
    sum += value == largest ? 1.0 : std::exp(value - largest);
  }
  return {largest, std::log(sum)};
}

void largest_logits(std::span<const float> logits, std::size_t count, std::vector<std::int32_t>& ids) {
  ids.clear();
  count = std::min(count, logits.size());
  if (count == 0) return;
  const auto at = [logits](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  // The least of those that are in stands first; nearly every logit is below it and costs one comparison.
  const auto before = [&at](std::int32_t a, std::int32_t b) {
    return at(a) > at(b) || (at(a) == at(b) && a < b);
  };
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (ids.size() == count) {
      if (!(logits[i] > at(ids.front()))) continue;  // a later id loses every tie
      std::pop_heap(ids.begin(), ids.end(), before);
      ids.back() = id;
    } else {
      ids.push_back(id);
    }
    std::push_heap(ids.begin(), ids.end(), before);
  }
  std::sort_heap(ids.begin(), ids.end(), before);
}

}  // namespace inferno
