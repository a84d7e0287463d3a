#pragma once

#include "backend/cuda/module/plans.hpp"

namespace inferno::cuda {

/// Tokens from which on tiles in shared memory pay.
inline constexpr unsigned kTiledTokens = 96;

/// matmul_q8 for many tokens.
Launch plan_matmul_tiled(const gpu::MatrixConstants& constants);

}  // namespace inferno::cuda
