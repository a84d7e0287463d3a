#pragma once

#include <cstddef>
#include <span>

#include "model/weights.hpp"

namespace inferno::scalar {

/// y = W x for every token: `x` [tokens, columns], `y` [tokens, rows]. `weight_row` [columns] is scratch.
///
/// Weight rows are the outer loop, tokens the inner one: a row is decoded to float once per step, however
/// many tokens use it. A token's result does not depend on the others.
void matmul(const Matrix& weight, std::span<const float> x, std::size_t tokens, std::span<float> y,
            std::span<float> weight_row);

/// One row of a matrix as floats: `target` [columns].
void decode_row(const Matrix& matrix, std::uint32_t row, std::span<float> target);

}  // namespace inferno::scalar
