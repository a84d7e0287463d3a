#include "backend/cpu/scalar/elementwise.hpp"

#include <cmath>

#include "backend/cpu/scalar/dot.hpp"

namespace inferno::scalar {

void rms_norm(std::span<const float> x, std::span<const float> weight, float epsilon, std::span<float> y) {
  const std::size_t width = weight.size();
  for (std::size_t row = 0; row < x.size(); row += width) {
    // In double: squares of floats can be beyond them, and the norm is not.
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += static_cast<double>(x[row + i]) * x[row + i];
    const double mean_square = squares / static_cast<double>(width);
    const auto scale = static_cast<float>(1.0 / std::sqrt(mean_square + static_cast<double>(epsilon)));
    for (std::size_t i = 0; i < width; ++i) y[row + i] = x[row + i] * scale * weight[i];
  }
}

void rope(std::span<float> x, std::span<const float> sine, std::span<const float> cosine) {
  const std::size_t half = sine.size();
  for (std::size_t head = 0; head < x.size(); head += 2 * half) {
    for (std::size_t i = 0; i < half; ++i) {
      const float first = x[head + i];
      const float second = x[head + half + i];
      x[head + i] = first * cosine[i] - second * sine[i];
      x[head + half + i] = first * sine[i] + second * cosine[i];
    }
  }
}

void add(std::span<float> x, std::span<const float> y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void swiglu(std::span<float> gate, std::span<const float> up) {
  for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1.0F + std::exp(-gate[i])) * up[i];
}

}  // namespace inferno::scalar
