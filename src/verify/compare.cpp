#include "verify/compare.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include <inferno/error.hpp>

namespace inferno::verify {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}
bool same_bits(float a, double b) {
  return std::bit_cast<std::uint64_t>(static_cast<double>(a)) == std::bit_cast<std::uint64_t>(b);
}

template <typename Other>
Difference compare_lists(std::span<const float> a, std::span<const Other> b) {
  if (a.size() != b.size()) {
    throw Error(fmt::format("{} logits where {} were expected", a.size(), b.size()));
  }
  Difference difference;
  difference.compared = a.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (same_bits(a[i], b[i])) continue;
    if (difference.different++ == 0) difference.first = i;
    const double distance = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    difference.max_abs =
        std::max(difference.max_abs, std::isfinite(distance) ? distance : std::numeric_limits<double>::max());
  }
  return difference;
}

/// ln of the sum of exp(logit), without overflow.
template <typename Value>
double log_normalizer(std::span<const Value> logits) {
  const double maximum = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const auto logit : logits) sum += std::exp(logit - maximum);
  return maximum + std::log(sum);
}

template <typename Other>
Divergence divergence_of(std::span<const double> reference, std::span<const Other> logits,
                         std::size_t vocab_size) {
  if (reference.size() != logits.size()) {
    throw Error(fmt::format("{} logits where {} were expected", logits.size(), reference.size()));
  }
  Divergence result;
  for (std::size_t at = 0; at < reference.size(); at += vocab_size) {
    const auto p = reference.subspan(at, vocab_size);
    const auto q = logits.subspan(at, vocab_size);
    const double p_normalizer = log_normalizer(p);
    const double q_normalizer = log_normalizer(q);
    double sum = 0;
    for (std::size_t i = 0; i < vocab_size; ++i) {
      const double log_p = p[i] - p_normalizer;
      sum += std::exp(log_p) * (log_p - (q[i] - q_normalizer));
    }
    result.mean += sum;
    result.max = std::max(result.max, sum);
  }
  const std::size_t positions = reference.size() / vocab_size;
  if (positions != 0) result.mean /= static_cast<double>(positions);
  return result;
}

template <typename Value>
double largest(std::span<const Value> values) {
  double result = 0;
  for (const auto value : values) result = std::max(result, std::abs(static_cast<double>(value)));
  return result;
}

}  // namespace

Difference compare(std::span<const float> a, std::span<const float> b) {
  return compare_lists(a, b);
}
Difference compare(std::span<const float> a, std::span<const double> b) {
  return compare_lists(a, b);
}

Divergence divergence(std::span<const double> reference, std::span<const float> logits,
                      std::size_t vocab_size) {
  return divergence_of(reference, logits, vocab_size);
}
Divergence divergence(std::span<const double> reference, std::span<const double> logits,
                      std::size_t vocab_size) {
  return divergence_of(reference, logits, vocab_size);
}

double largest_magnitude(std::span<const float> values) {
  return largest(values);
}
double largest_magnitude(std::span<const double> values) {
  return largest(values);
}

}  // namespace inferno::verify
