#include "backend/cpu/scalar/matmul.hpp"

#include "backend/cpu/scalar/dot.hpp"

namespace inferno::scalar {

void decode_row(const Matrix& matrix, std::uint32_t row, std::span<float> target) {
  matrix.format->decode(matrix.row(row), matrix.columns / matrix.format->block_elements, target.data());
}

void matmul(const Matrix& weight, std::span<const float> x, std::size_t tokens, std::span<float> y,
            std::span<float> weight_row) {
  const std::size_t columns = weight.columns;
  for (std::uint32_t row = 0; row < weight.rows; ++row) {
    decode_row(weight, row, weight_row);
    for (std::size_t token = 0; token < tokens; ++token) {
      y[token * weight.rows + row] = dot(weight_row.data(), x.data() + token * columns, columns);
    }
  }
}

}  // namespace inferno::scalar
