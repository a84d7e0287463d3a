#pragma once

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

double largest_magnitude(std::span<const float> values);
double largest_magnitude(std::span<const double> values);

/// Share of the largest logit by which a backend may differ from exact arithmetic. Float arithmetic: an order
/// of magnitude above what it shows. The contract's int8 activations and cache: what they cost on models with
/// random weights, where nothing averages out; a trained model shows a fifth of it.
double distance_bound(bool contract);

}  // namespace inferno::verify
