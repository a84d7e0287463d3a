#pragma once

#include <array>
#include <cstddef>

namespace inferno::scalar {

/// Sum of a[i] * b[i] over n elements, in float: element i goes to partial sum i % 16, and the sixteen are
/// added as a tree. One running sum would lose digits on long rows, and a compiler must not split it into
/// vector lanes by itself: float addition is not associative. Spelled out like this, the lanes are in the
/// program, the result is the same on every machine, and its rounding error grows with n / 16.
inline float dot(const float* a, const float* b, std::size_t n) {
  constexpr std::size_t kLanes = 16;
  std::array<float, kLanes> sums{};
  const std::size_t whole = n / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (std::size_t i = whole; i < n; ++i) sums[i - whole] += a[i] * b[i];
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  }
  return sums[0];
}

}  // namespace inferno::scalar
