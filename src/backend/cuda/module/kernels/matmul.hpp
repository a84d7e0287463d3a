#pragma once

#include "backend/cuda/module/plans.hpp"

namespace inferno::cuda {

/// Workgroups that give most multiprocessors of a large device something to do.
inline constexpr unsigned kEnoughGroups = 100;
/// Tokens from which on tiles in shared memory pay even if they leave multiprocessors without work.
inline constexpr unsigned kTiledTokens = 96;

/// matmul_q8 for many tokens.
Launch plan_matmul_tiled(const gpu::MatrixConstants& constants, unsigned shared_limit);

/// Whether its larger tiles are enough for a large device.
bool fills_device(const gpu::MatrixConstants& constants);

}  // namespace inferno::cuda
