#pragma once

#include <span>
#include <vector>

#include "model/weights.hpp"

namespace inferno::reference {

/// y[rows] = W x by the contract: quantized for integer formats, in floats for float formats; each row sum
/// times `factor` if there is one.
std::vector<float> project_vector(const Matrix& matrix, std::span<const float> x, const float* factor);

}  // namespace inferno::reference
