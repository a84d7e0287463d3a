#include "backend/cpu/reference/project.hpp"

#include "arith/vectors.hpp"
#include "quant/half.hpp"

namespace inferno::reference {

std::vector<float> project_vector(const Matrix& matrix, std::span<const float> x, const float* factor) {
  const auto& format = *matrix.format;
  const std::size_t blocks = matrix.columns / format.block_elements;
  std::vector<float> y(matrix.rows);
  const auto finished = [factor](float sum) {
    return factor != nullptr ? arith::multiply(sum, *factor) : sum;
  };

  if (format.integers == nullptr) {
    std::vector<float> weights(matrix.columns);
    for (std::uint32_t row = 0; row < matrix.rows; ++row) {
      format.decode(matrix.row(row), blocks, weights.data());
      y[row] = finished(arith::float_dot(weights, x));
    }
    return y;
  }
  const auto quantized = arith::quantize_vector(x);
  std::vector<std::int8_t> weights(matrix.columns);
  std::vector<std::uint16_t> half_scales(blocks);
  std::vector<float> scales(blocks);
  for (std::uint32_t row = 0; row < matrix.rows; ++row) {
    format.integers(matrix.row(row), blocks, weights.data(), half_scales.data());
    for (std::size_t block = 0; block < blocks; ++block)
      scales[block] = quant::half_to_float(half_scales[block]);
    y[row] = finished(arith::quantized_dot(weights, scales, quantized));
  }
  return y;
}

}  // namespace inferno::reference
