#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace inferno::verify {

/// How far apart two lists of logits are.
struct Difference {
  double max_abs = 0;           ///< a NaN or infinity on one side only counts as the largest double
  std::uint64_t different = 0;  ///< values whose bits differ
  std::uint64_t first = 0;      ///< index of the first of them
  std::uint64_t compared = 0;
};

/// Throws Error if the lists are of different length.
Difference compare(std::span<const float> a, std::span<const float> b);
Difference compare(std::span<const float> a, std::span<const double> b);

/// Kullback-Leibler divergence, in nats, of what a model says from what it should say: sum of p * ln(p / q)
/// over the vocabulary, where p is the softmax of the reference's logits and q that of the others.
struct Divergence {
  double mean = 0;  ///< over positions
  double max = 0;
};

/// Both [positions][vocab_size]. Throws Error if the lists are of different length.
Divergence divergence(std::span<const double> reference, std::span<const float> logits,
                      std::size_t vocab_size);
Divergence divergence(std::span<const double> reference, std::span<const double> logits,
                      std::size_t vocab_size);

double largest_magnitude(std::span<const float> values);
double largest_magnitude(std::span<const double> values);

}  // namespace inferno::verify
