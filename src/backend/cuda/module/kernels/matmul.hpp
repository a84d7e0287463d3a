#pragma once

#include "backend/cuda/module/plans.hpp"

namespace inferno::cuda {

/// Workgroups that give most multiprocessors of a large device something to do.
inline constexpr unsigned kEnoughGroups = 100;
/// Tokens from which on tiles in shared memory pay even if they leave multiprocessors without work.
inline constexpr unsigned kTiledTokens = 96;

/// matmul_q8 for many tokens.
Launch plan_matmul_tiled(const gpu::MatrixConstants& constants, unsigned shared_limit);

/// Whether the module has matmul_large.cu's kernels for the device, and it can give them `shared_limit` bytes
/// of shared memory.
bool has_large_tiles(unsigned shared_limit);

/// Whether their tiles are enough for a large device.
bool large_tiles_fill_device(unsigned rows, unsigned tokens);

/// matmul_q8 and matmul_swiglu_q8 for prompts.
Launch plan_matmul_large(const gpu::MatrixConstants& constants);
Launch plan_matmul_swiglu_large(const gpu::MatmulSwigluConstants& constants);

/// Whether its larger tiles are enough for a large device.
bool fills_device(const gpu::MatrixConstants& constants);

}  // namespace inferno::cuda
